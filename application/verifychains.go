package application

import (
	"context"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// chain is how far one has been followed.
type chain struct {
	hash    string // of the last call
	started bool   // a call had a hash
	last    int64  // ID of the last call
	reached bool   // the hash that the store tells as the last was seen
	noted   bool   // the hash that was noted earlier was seen
}

// heads are the hashes of the last calls of chains, none if calls are not chained.
func (r *verification) heads(ctx context.Context) (map[string]string, error) {
	if chained, ok := r.log.(domain.Chained); ok {
		return chained.ChainHeads(ctx)
	}
	return nil, nil
}

// checkHash compares the call's hash with that of the call before it in its chain.
func (r *verification) checkHash(call *domain.Call) {
	name := call.ChainName()
	c := r.chainOf(name)
	before := c.last
	if pruned := r.prunedOf(call); pruned.Through > c.last && pruned.Through < call.ID && pruned.Hash != "" { // the call before it is gone
		c.hash, c.started = pruned.Hash, true
	}
	c.last = call.ID
	switch {
	case call.Hash == "" && c.started:
		r.fault(callFault(call, "the call has no hash, though those before it have"))
	case call.Hash != "" && call.Chain(c.hash) != call.Hash:
		fault := callFault(call, "the hash of the call does not fit to it and to the call before it in its chain: one of them was changed, or a call between them removed or added")
		if call.Kind.Ages() {
			r.suspect(suspect{fault, call.Policy, before, 0, false})
		} else {
			r.fault(fault)
		}
		fallthrough
	case call.Hash != "":
		c.hash, c.started = call.Hash, true
	}
	c.reached = c.reached || r.found.Heads[name] == c.hash
	c.noted = c.noted || r.expected.Noted[name] == c.hash
}

func (r *verification) chainOf(name string) *chain {
	c := r.chains[name]
	if c == nil {
		c = &chain{hash: domain.ChainStart(name)}
		c.noted = r.expected.Noted[name] == c.hash
		r.chains[name] = c
	}
	return c
}

// prunedOf is what was pruned of the chain of a call when the reading began.
func (r *verification) prunedOf(call *domain.Call) domain.PrunedCalls {
	if !call.Kind.Ages() {
		return domain.PrunedCalls{}
	}
	return r.pruned.of[call.Policy]
}

// compareHeads takes over which hashes the store tells as the last ones, after the log was
// read: a chain that had begun by then has one. It stays when all calls are pruned.
func (r *verification) compareHeads(ctx context.Context) (err error) {
	if r.found.Heads, err = r.heads(ctx); err != nil {
		return err
	}
	for name, head := range r.found.Heads {
		c := r.chainOf(name)
		c.reached = c.hash == head
	}
	for name, pruned := range r.pruned.of {
		if pruned.Hash != "" {
			r.chainOf(name).started, r.hashed = true, true
		}
	}
	if len(r.found.Heads) == 0 {
		if r.hashed {
			r.fault(Fault{Table: "api_call_chains", Detail: "calls have hashes, and that they are chained is not there any more"})
		}
		return nil
	}
	for name, c := range r.chains {
		if _, is := r.found.Heads[name]; c.started && !is {
			r.fault(Fault{Table: "api_call_chains", Policy: name, Detail: "calls have hashes, and there is no row of the chain" + ofChain(name)})
		}
	}
	return nil
}

func ofChain(name string) string {
	if name == "" {
		return " of what administrators and servers did"
	}
	return " of policy " + name
}
