#!/usr/bin/env bash
# Copies what the pages stand on from npm's packages, unmodified, to where the program
# embeds it. "vendor.sh --check" copies nothing and fails if a copy differs.
# The versions are those of package.json, the contents those of package-lock.json.
set -euo pipefail
cd "$(dirname "$0")"

# package, its file, where it goes
files='
swagger-ui-dist swagger-ui-bundle.js             web/docs/swagger-ui/swagger-ui-bundle.js
swagger-ui-dist swagger-ui-bundle.js.LICENSE.txt web/docs/swagger-ui/swagger-ui-bundle.js.LICENSE.txt
swagger-ui-dist swagger-ui.css                   web/docs/swagger-ui/swagger-ui.css
swagger-ui-dist LICENSE                          web/docs/swagger-ui/LICENSE.txt
swagger-ui-dist NOTICE                           web/docs/swagger-ui/NOTICE.txt
uplot dist/uPlot.iife.min.js web/dashboard/uplot/uPlot.iife.min.js
uplot dist/uPlot.min.css     web/dashboard/uplot/uPlot.min.css
uplot LICENSE                web/dashboard/uplot/LICENSE.txt
'

npm ci --ignore-scripts --silent
while read -r package file target; do
	[ -n "$package" ] || continue
	if [ "${1-}" = --check ]; then
		cmp "node_modules/$package/$file" "$target"
	else
		mkdir -p "$(dirname "$target")"
		cp "node_modules/$package/$file" "$target"
		chmod 644 "$target"
	fi
done <<<"$files"
