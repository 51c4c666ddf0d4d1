package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/nene2-ft/ratelimitlog"
	"github.com/nene2-ft/ratelimitlog/application"
	"github.com/nene2-ft/ratelimitlog/domain"
)

type verifyCmd struct {
	TamperEvident bool   `help:"It is a fault if rows are not chained by hashes."`
	Noted         string `type:"existingfile" help:"What verify --json printed earlier: it is a fault if the hashes that it told are gone."`
}

// errFaulty is returned by verify when it has told what does not fit.
var errFaulty = errors.New("log and counters do not agree")

// faultJSON is a fault as programs read it.
type faultJSON struct {
	Table       string     `json:"table"`
	ID          int64      `json:"id,omitempty"`
	Policy      string     `json:"policy,omitempty"`
	Key         string     `json:"key,omitempty"`
	Schedule    string     `json:"schedule,omitempty"`
	WindowStart *time.Time `json:"window_start,omitempty"`
	Detail      string     `json:"detail"`
}

func (c *verifyCmd) Run(console *console) error {
	expected := application.Expected{Chained: c.TamperEvident}
	if c.Noted != "" {
		var err error
		if expected.Noted, err = readNoted(c.Noted); err != nil {
			return err
		}
	}
	console.config.ReadOnly = true
	verifier, cleanup, err := ratelimitlog.NewVerifier(console.ctx, console.config)
	if err != nil {
		return err
	}
	defer cleanup()
	told := time.Now()
	found, err := verifier.Verify(console.ctx, expected, func(calls, through, newest int64) {
		if time.Since(told) > time.Second {
			told = time.Now()
			fmt.Fprintf(console.err, "%d calls read, %d%%\n", calls, 100*through/max(newest, 1))
		}
	})
	if err != nil {
		return err
	}
	faults := make([]faultJSON, len(found.Faults))
	for i, f := range found.Faults {
		faults[i] = faultJSON{Table: f.Table, ID: f.ID, Policy: f.Policy, Key: f.Key, Schedule: f.Schedule, Detail: f.Detail}
		if !f.WindowStart.IsZero() {
			faults[i].WindowStart = &f.WindowStart
		}
	}
	heads := found.Heads
	if heads == nil {
		heads = map[string]string{}
	}
	err = console.print(map[string]any{
		"calls": found.Calls, "through": found.Through, "windows": found.Windows, "uncovered": found.Uncovered, "pruned": found.Pruned,
		"gapless": found.Gapless, "chained": found.Chained, "heads": heads, "faults": faults, "fault_count": found.FaultCount,
	}, "%s", verificationText(found))
	if err == nil && found.FaultCount > 0 {
		err = errFaulty
	}
	return err
}

// readNoted reads the hashes that an earlier verification told.
func readNoted(file string) (map[string]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var earlier struct{ Heads map[string]string }
	if err := json.Unmarshal(text, &earlier); err != nil || len(earlier.Heads) == 0 {
		return nil, &domain.InvalidError{Field: "noted", Reason: "is a file without what verify --json prints of a chained log"}
	}
	return earlier.Heads, nil
}

// verificationText tells people what was found.
func verificationText(found application.Verification) string {
	var b strings.Builder
	for _, f := range found.Faults {
		b.WriteString(f.Table)
		if f.ID > 0 {
			fmt.Fprintf(&b, " %d", f.ID)
		}
		if f.Policy != "" {
			fmt.Fprintf(&b, ", policy %s", f.Policy)
		}
		if f.Key != "" {
			fmt.Fprintf(&b, ", key %s", quote(f.Key))
		}
		if !f.WindowStart.IsZero() {
			fmt.Fprintf(&b, ", window of %s", f.WindowStart.Format(time.RFC3339))
		}
		fmt.Fprintf(&b, ": %s\n", f.Detail)
	}
	if more := found.FaultCount - int64(len(found.Faults)); more > 0 {
		fmt.Fprintf(&b, "and %d faults more\n", more)
	}
	fmt.Fprintf(&b, "%d calls read, %d windows compared with their counters", found.Calls, found.Windows)
	if found.Uncovered > 0 {
		fmt.Fprintf(&b, " (%d of them only roughly: the log does not have all their hits)", found.Uncovered)
	}
	if found.Pruned > 0 {
		fmt.Fprintf(&b, ", %d calls were pruned before", found.Pruned)
	}
	b.WriteString("\n")
	if found.Gapless {
		b.WriteString("ids: checked for gaps\n")
	} else {
		b.WriteString("ids: this engine does not promise to leave no gaps\n")
	}
	if !found.Chained {
		b.WriteString("hashes: none; see --tamper-evident\n")
	}
	for _, policy := range slices.Sorted(maps.Keys(found.Heads)) {
		of := "policy " + policy
		if policy == "" {
			of = "what administrators and servers did"
		}
		fmt.Fprintf(&b, "hash of the last call of %s: %s\n", of, found.Heads[policy])
	}
	if found.FaultCount == 0 {
		b.WriteString("log and counters agree\n")
	}
	return b.String()
}
