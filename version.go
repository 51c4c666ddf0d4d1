package ratelimitlog

import (
	"cmp"
	"runtime/debug"
)

// Version is the version of the program or module that was built, "(devel)" if it is not
// known.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "(devel)"
	}
	return cmp.Or(info.Main.Version, "(devel)")
}
