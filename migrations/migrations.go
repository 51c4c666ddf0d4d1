// Package migrations holds the numbered SQL files that make the schema, a folder
// per database engine. They are run with goose; see https://github.com/pressly/goose.
package migrations

import "embed"

// SQLite has the folder "sqlite".
//
//go:embed sqlite/*.sql
var SQLite embed.FS

// Postgres has the folder "postgres".
//
//go:embed postgres/*.sql
var Postgres embed.FS
