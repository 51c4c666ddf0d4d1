package policyfile_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/infrastructure/policyfile"
)

func TestAuditIsRead(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]domain.Audit{
		"{}":                              {},
		"{log: all}":                      {},
		"{log: allowed}":                  {Log: domain.LogAllowed},
		"{log: refused}":                  {Log: domain.LogRefused},
		"{log: off}":                      {Log: domain.LogOff},
		`{log: "off"}`:                    {Log: domain.LogOff},
		"{sample: 0.1}":                   {Sample: 0.1},
		"{sample: .5}":                    {Sample: 0.5},
		"{sample: 1}":                     {},
		"{sample: 1.0}":                   {},
		"{sample: 0.000001}":              {Sample: domain.MinSample},
		"{keep: 30d}":                     {Keep: 30 * day},
		"{keep: 1h30m}":                   {Keep: 90 * time.Minute},
		"{keep: 1s}":                      {Keep: time.Second},
		"{max_rows: 1}":                   {MaxRows: 1},
		"{max_rows: 9223372036854775807}": {MaxRows: 1<<63 - 1},
		"{log: all, sample: 0.1, keep: 30d, max_rows: 100000}": {Sample: 0.1, Keep: 30 * day, MaxRows: 100000},
	} {
		rules, err := policyfile.Parse("f", []byte("policies: {a: {limit: 1, window: 1m, audit: "+text+"}}\n"))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := rules.Policies[0].Audit; got != want {
			t.Errorf("%s: read %+v, want %+v", text, got, want)
		}
	}
}

func TestErrorsOfAuditNameLineAndColumn(t *testing.T) {
	for text, want := range map[string]string{
		"":                                "policy a: audit must be a mapping, it is empty",
		"off":                             `f:4:12: policy a: audit must be a mapping, it is "off"`,
		"[]":                              "f:4:12: policy a: audit must be a mapping, it is a list",
		"{rows: 1}":                       `f:4:13: policy a: audit has no member "rows"; it may have [log sample keep max_rows]`,
		"{log: off, log: all}":            `f:4:23: this is not YAML: mapping key "log" already defined`,
		"{log: none}":                     `f:4:18: policy a: audit: log is "none", it must be all, allowed, refused or off`,
		"{log: Off}":                      `log is "Off", it must be`,
		"{log: false}":                    `log is "false", it must be`,
		`{log: ""}`:                       `log is "", it must be`,
		"{log: }":                         "log must be a single value, it is empty",
		"{log: [all]}":                    "f:4:18: policy a: audit: log must be a single value, it is a list",
		"{sample: 0}":                     `f:4:21: policy a: audit: sample is "0", it must be a number like 0.1, from 0.000001 to 1`,
		"{sample: 1.1}":                   `sample is "1.1", it must be`,
		"{sample: 0.0000001}":             `sample is "0.0000001", it must be`,
		"{sample: -0.1}":                  `sample is "-0.1", it must be`,
		"{sample: +0.1}":                  `sample is "+0.1", it must be`,
		"{sample: 10%}":                   `sample is "10%", it must be`,
		"{sample: 1e-2}":                  `sample is "1e-2", it must be`,
		"{sample: 0x1p-1}":                `sample is "0x1p-1", it must be`,
		"{sample: 0.1_0}":                 `sample is "0.1_0", it must be`,
		`{sample: "0,1"}`:                 `sample is "0,1", it must be`,
		"{sample: 0.1.1}":                 `sample is "0.1.1", it must be`,
		`{sample: "."}`:                   `sample is ".", it must be`,
		`{sample: " 0.1"}`:                `sample is " 0.1", it must be`,
		`{sample: NaN}`:                   `sample is "NaN", it must be`,
		`{sample: .nan}`:                  "sample must be a single value",
		`{sample: .inf}`:                  "sample must be a single value",
		`{sample: Inf}`:                   `sample is "Inf", it must be`,
		"{keep: 0s}":                      `f:4:19: policy a: audit: keep is 0s, it must be at least 1s`,
		"{keep: 30}":                      `keep is not right: "30" is not a duration like 90s, 15m, 1h30m or 2d`,
		"{keep: 500ms}":                   `keep is not right: "500ms" is not a duration`,
		"{keep: -1d}":                     `keep is not right: "-1d" is not a duration`,
		"{keep: 1000000d}":                `keep is not right: "1000000d" is too long`,
		"{keep: forever}":                 `keep is not right: "forever" is not a duration`,
		`{keep: ""}`:                      `keep is not right: a duration is missing`,
		"{max_rows: 0}":                   `f:4:23: policy a: audit: max_rows is "0", it must be a whole number, at least 1`,
		"{max_rows: -1}":                  `max_rows is "-1", it must be`,
		"{max_rows: +1}":                  `max_rows is "+1", it must be`,
		"{max_rows: 1.5}":                 `max_rows is "1.5", it must be`,
		"{max_rows: 1e3}":                 `max_rows is "1e3", it must be`,
		"{max_rows: 1_000}":               `max_rows is "1_000", it must be`,
		"{max_rows: 0x10}":                `max_rows is "0x10", it must be`,
		"{max_rows: unlimited}":           `max_rows is "unlimited", it must be`,
		"{max_rows: 9223372036854775808}": `max_rows is "9223372036854775808", it must be`,
	} {
		rules, err := policyfile.Parse("f", []byte("policies:\n  a:\n    limit: 1\n    audit: "+text+"\n    window: 1m\n"))
		if err == nil || !strings.Contains(err.Error(), want) || rules.Policies != nil {
			t.Errorf("%s: read %v, %v\nwant an error with %q", text, rules, err, want)
		}
	}
}
