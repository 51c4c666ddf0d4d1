// Package application is what the product does with the domain: decide hits, look
// without counting, reset, prune, and read the log. [Limiter] is the only
// orchestration there is; every transport and every command calls it.
//
// A hit goes down once and comes back once: its policies become slots, the
// committer joins it with the hits that wait beside it into one unit of work
// (counters and calls together), and the tallies that come back are the decision.
// A hit whose refusal is certain does not wait: it is answered from memory and
// counted by a later commit.
package application
