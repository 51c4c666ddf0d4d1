package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// loadBuiltIn is the load for machines without wrk. It costs more of the
// processor than wrk does, so that figures of the two do not compare.
func loadBuiltIn(ctx context.Context, address string, asked request, o options, duration time.Duration) (result, error) {
	ctx, cancel := context.WithTimeout(ctx, duration)
	defer cancel()
	client := &fasthttp.HostClient{Addr: address, MaxConns: o.connections}
	var (
		group     sync.WaitGroup
		refused   atomic.Int64
		failure   atomic.Pointer[error]
		latencies = make([][]time.Duration, o.connections)
	)
	begun := time.Now()
	for i := range o.connections {
		group.Go(func() {
			request, response := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
			for n := i; ctx.Err() == nil; n++ {
				asked.write(request, address, fmt.Sprintf("key-%d", n%o.keys))
				sent := time.Now()
				if err := client.Do(request, response); err != nil {
					failure.Store(&err)
					return
				}
				latencies[i] = append(latencies[i], time.Since(sent))
				if response.StatusCode() != fasthttp.StatusOK {
					refused.Add(1)
				}
			}
		})
	}
	group.Wait()
	took := time.Since(begun)
	if err := failure.Load(); err != nil {
		return result{}, *err
	}
	all := slices.Concat(latencies...)
	slices.Sort(all)
	if len(all) == 0 {
		return result{}, fmt.Errorf("no answer within %s", duration)
	}
	return result{
		perSecond: float64(len(all)) / took.Seconds(), requests: int64(len(all)), refused: refused.Load(),
		p50: all[len(all)/2], p99: all[len(all)*99/100],
	}, nil
}
