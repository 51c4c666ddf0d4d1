package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/valyala/fasthttp"
)

// watchMemory sends each of n distinct keys once, to a server that allows them and
// to one that refuses them, and prints what the server holds in memory on the way.
func watchMemory(ctx context.Context, o options, n int) error {
	for _, s := range []scenario{
		{name: "allowed", args: []string{"--limit", "5", "--window", "1d"}},
		{name: "refused", args: []string{"--limit", "0", "--window", "1d"}},
	} {
		if err := watch(ctx, o, s, n); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

func watch(ctx context.Context, o options, s scenario, n int) error {
	p, err := start(ctx, o, s)
	if err != nil {
		return err
	}
	defer p.stop()
	const steps = 10
	for step := range steps {
		if err := sendKeys(ctx, p.address, o.connections, step*n/steps, (step+1)*n/steps); err != nil {
			return err
		}
		resident, err := p.memory("VmRSS")
		if err != nil {
			return err
		}
		peak, err := p.memory("VmHWM")
		if err != nil {
			return err
		}
		fmt.Printf("%s: %d distinct keys, resident %d MiB, peak %d MiB\n", s.name, (step+1)*n/steps, resident>>20, peak>>20)
	}
	return nil
}

// sendKeys asks once for each key of the numbers from first up to before last.
func sendKeys(ctx context.Context, address string, connections, first, last int) error {
	client := &fasthttp.HostClient{Addr: address, MaxConns: connections}
	var group sync.WaitGroup
	var next atomic.Int64
	var failure atomic.Pointer[error]
	next.Store(int64(first))
	for range connections {
		group.Go(func() {
			request, response := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
			for ctx.Err() == nil && failure.Load() == nil {
				n := next.Add(1) - 1
				if n >= int64(last) {
					return
				}
				ping.write(request, address, fmt.Sprintf("distinct-key-%d", n))
				err := client.Do(request, response)
				if code := response.StatusCode(); err == nil && code >= 500 {
					err = fmt.Errorf("status %d", code)
				}
				if err != nil {
					failure.Store(&err)
				}
			}
		})
	}
	group.Wait()
	if err := failure.Load(); err != nil {
		return *err
	}
	return ctx.Err()
}
