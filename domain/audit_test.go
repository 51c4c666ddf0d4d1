package domain_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/nene2-ft/ratelimitlog/domain"
)

func TestCoverageIsReadableAndEmptyForAll(t *testing.T) {
	for want, audit := range map[string]domain.Audit{
		"":                          {Keep: 1, MaxRows: 1},
		"off":                       {Log: domain.LogOff, Sample: 0.1},
		"refused":                   {Log: domain.LogRefused},
		"allowed":                   {Log: domain.LogAllowed, Sample: 1},
		"all sample 0.1":            {Sample: 0.1},
		"refused sample 0.000001":   {Log: domain.LogRefused, Sample: domain.MinSample},
		"allowed sample 0.33333333": {Log: domain.LogAllowed, Sample: 0.33333333},
	} {
		if got := audit.Coverage(); got != want {
			t.Errorf("%+v has the coverage %q, want %q", audit, got, want)
		}
	}
}

func TestLoggedIsTheSampleOnAverageAndNeverFarFromIt(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		hits   int64
		sample float64
	}{{1, 0.1}, {1, 0.9}, {7, 0.1}, {10, 0.1}, {1000, 0.0005}, {3, domain.MinSample}, {5, 1}, {5, 0}} {
		audit, want := domain.Audit{Sample: c.sample}, float64(c.hits)
		if c.sample > 0 {
			want *= c.sample
		}
		const draws = 100_000
		sum := int64(0)
		for range draws {
			n := audit.Logged(c.hits, true, random.Float64())
			if math.Abs(float64(n)-want) >= 1 || n > c.hits {
				t.Fatalf("of %d hits %d are logged, want %v", c.hits, n, want)
			}
			sum += n
		}
		fraction := want - math.Floor(want)
		if off := math.Abs(float64(sum) - want*draws); off > 5*math.Sqrt(draws*fraction*(1-fraction))+1e-3 {
			t.Errorf("of %d hits %v are logged on average, want %v", c.hits, float64(sum)/draws, want)
		}
	}
}

func TestHitsOfOtherOutcomesAreNotLogged(t *testing.T) {
	for mode, want := range map[domain.LogMode][2]int64{
		domain.LogAll: {5, 5}, domain.LogAllowed: {5, 0}, domain.LogRefused: {0, 5}, domain.LogOff: {0, 0}, "unheard of": {0, 0},
	} {
		audit := domain.Audit{Log: mode}
		if allowed, refused := audit.Logged(5, true, 0.5), audit.Logged(5, false, 0.5); allowed != want[0] || refused != want[1] {
			t.Errorf("%s: of 5 allowed and 5 refused hits %d and %d are logged, want %v", mode, allowed, refused, want)
		}
	}
}
