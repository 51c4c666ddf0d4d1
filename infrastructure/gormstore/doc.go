// Package gormstore keeps counters and audit log in a SQLite file, through GORM.
// [Store] implements every port of package domain, and joins counter and log in
// one transaction.
//
// There is one connection that writes, in WAL mode and with transactions that take
// the write lock at once, and a few that can only read. Several processes may use
// one file on one machine and stay exact; a network file system will not do.
//
// GORM composes the statements of the hot path once, its upsert clause among
// them; they run as prepared statements in a few fixed sizes. Why, and what it
// gains, is in docs/adr.
package gormstore
