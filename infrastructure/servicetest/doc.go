// Package servicetest gives tests the servers that they need: a schema of their own
// on a PostgreSQL or a Redis that is running, or one of their own that they may hang
// and kill.
//
// A test whose server is missing is skipped and says so. With the environment
// variable RATELIMITLOG_REQUIRE_SERVICES it fails instead.
package servicetest
