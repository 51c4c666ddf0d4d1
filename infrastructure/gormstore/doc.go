// Package gormstore keeps counters and audit log in a SQLite file or in PostgreSQL,
// through GORM. [Store] and [Postgres] implement every port of package domain, and
// join counter and log in one transaction.
//
// On SQLite there is one connection that writes, in WAL mode and with transactions
// that take the write lock at once, and a few that can only read. Several processes
// may use one file on one machine and stay exact; a network file system will not do.
//
// On PostgreSQL units of work lock the windows that they hit, in one order, and run
// beside each other where they hit different ones.
//
// GORM composes the statements of the hot path once, its upsert clause among
// them; they run as prepared statements, on SQLite in a few fixed sizes. Why, and
// what it gains, is in docs/adr.
package gormstore
