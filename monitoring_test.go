package ratelimitlog_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metricsql"
	"github.com/goccy/go-yaml"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/nene2-ft/ratelimitlog"
	"github.com/nene2-ft/ratelimitlog/infrastructure/servicetest"
)

// query is a PromQL expression of a dashboard or an alert.
type query struct {
	where, text string
	labels      []string // told of the result
}

// dashboard is what docs/grafana.json must have.
type dashboard struct {
	SchemaVersion int
	UID           string
	Templating    struct {
		List []struct{ Name, Type, Definition string }
	}
	Panels []struct {
		ID                       int
		Type, Title, Description string
		Datasource               struct{ UID string }
		GridPos                  struct{ X, Y, W, H int }
		Targets                  []struct{ RefID, Expr, LegendFormat string }
		FieldConfig              struct{ Defaults struct{ Unit string } }
	}
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	text, err := os.ReadFile("docs/grafana.json")
	if err != nil {
		t.Fatal(err)
	}
	decodeJSON(t, string(text), &d)
	return d
}

// grafana puts in what Grafana puts in for its variables.
var grafana = strings.NewReplacer("$__rate_interval", "1m", "$job", "ratelimitlog", "$instance", ".*", "$policy", ".*")

var (
	legendLabel = regexp.MustCompile(`\{\{(\w+)\}\}`)
	labelValues = regexp.MustCompile(`^label_values\((.+), (\w+)\)$`)
)

func (d dashboard) queries(t *testing.T) (all []query) {
	t.Helper()
	for _, v := range d.Templating.List {
		if v.Type != "query" {
			continue
		}
		found := labelValues.FindStringSubmatch(v.Definition)
		if found == nil {
			t.Errorf("variable %s: %s", v.Name, v.Definition)
			continue
		}
		all = append(all, query{"variable " + v.Name, "count by (" + found[2] + ") (" + grafana.Replace(found[1]) + ")", []string{found[2]}})
	}
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			q := query{where: fmt.Sprintf("panel %q, %s", p.Title, target.RefID), text: grafana.Replace(target.Expr)}
			for _, label := range legendLabel.FindAllStringSubmatch(target.LegendFormat, -1) {
				q.labels = append(q.labels, label[1])
			}
			all = append(all, q)
		}
	}
	return all
}

// alerts is what docs/alerts.yaml must have.
type alerts struct {
	Groups []struct {
		Name  string
		Rules []struct {
			Alert, Expr         string
			Labels, Annotations map[string]string
		}
	}
}

func readAlerts(t *testing.T) (a alerts) {
	t.Helper()
	readYAML(t, "docs/alerts.yaml", &a)
	return a
}

func readYAML(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err == nil {
		err = yaml.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (a alerts) queries() (all []query) {
	for _, group := range a.Groups {
		for _, rule := range group.Rules {
			q := query{where: "alert " + rule.Alert, text: rule.Expr}
			for _, label := range regexp.MustCompile(`\$labels\.(\w+)`).FindAllStringSubmatch(fmt.Sprint(rule.Annotations), -1) {
				q.labels = append(q.labels, label[1])
			}
			all = append(all, q)
		}
	}
	return all
}

// exported are the names of time series, of each the labels, and of each label the values.
type exported map[string]map[string]map[string]bool

// scrape adds what a server exports.
func (e exported) scrape(t *testing.T, s *service) {
	t.Helper()
	a := s.request(t, "GET", "/metrics")
	if a.status != 200 {
		t.Fatalf("/metrics: %d %s", a.status, a.body)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(a.body))
	if err != nil {
		t.Fatal(err)
	}
	for name, family := range families {
		for _, metric := range family.Metric {
			if family.GetType() != dto.MetricType_HISTOGRAM {
				e.add(name, metric.Label, "")
				continue
			}
			e.add(name+"_sum", metric.Label, "")
			e.add(name+"_count", metric.Label, "")
			e.add(name+"_bucket", metric.Label, "le")
		}
	}
}

func (e exported) add(name string, labels []*dto.LabelPair, more string) {
	if e[name] == nil {
		e[name] = map[string]map[string]bool{"job": {}, "instance": {}} // by Prometheus
	}
	if more != "" {
		e[name][more] = map[string]bool{}
	}
	for _, label := range labels {
		if e[name][label.GetName()] == nil {
			e[name][label.GetName()] = map[string]bool{}
		}
		e[name][label.GetName()][label.GetValue()] = true
	}
}

// freeValues are labels whose values depend on what is served, and so are not checked.
var freeValues = []string{"job", "instance", "policy", "le", "code", "route", "version", "goversion"}

// check holds a query to what is exported: its metrics, the labels it selects, groups and
// tells by, and the values of labels that are ours to choose.
func (e exported) check(q query, used map[string]bool) (faults []string) {
	fault := func(format string, args ...any) {
		faults = append(faults, q.where+": "+fmt.Sprintf(format, args...))
	}
	parsed, err := metricsql.Parse(q.text)
	if err != nil {
		fault("%s: %v", q.text, err)
		return faults
	}
	var names []string
	metricsql.VisitAll(parsed, func(expr metricsql.Expr) {
		selector, is := expr.(*metricsql.MetricExpr)
		if !is {
			return
		}
		for _, filters := range selector.LabelFilterss {
			name := ""
			for _, f := range filters {
				if f.Label == "__name__" {
					name = f.Value
				}
			}
			used[name] = true
			names = append(names, name)
			labels, known := e[name]
			if !known {
				fault("no server exports %s", name)
				continue
			}
			for _, f := range filters {
				if f.Label == "__name__" {
					continue
				}
				values, has := labels[f.Label]
				if !has {
					fault("%s has no label %s", name, f.Label)
				}
				if !has || slices.Contains(freeValues, f.Label) {
					continue
				}
				for value := range strings.SplitSeq(f.Value, "|") {
					if !values[value] {
						fault("%s has no %s=%q, it has %q", name, f.Label, value, slices.Sorted(maps.Keys(values)))
					}
				}
			}
		}
	})
	if len(names) == 0 {
		fault("asks for no metric: %s", q.text)
	}
	grouped := slices.Clone(q.labels)
	metricsql.VisitAll(parsed, func(expr metricsql.Expr) {
		switch expr := expr.(type) {
		case *metricsql.AggrFuncExpr:
			grouped = append(grouped, expr.Modifier.Args...)
		case *metricsql.BinaryOpExpr:
			grouped = append(grouped, expr.GroupModifier.Args...)
		}
	})
	for _, label := range grouped {
		for _, name := range names {
			if labels := e[name]; labels != nil && labels[label] == nil {
				fault("%s has no label %s", name, label)
			}
		}
	}
	return faults
}

// everything is what servers export of which each thing has happened that is counted.
func everything(t *testing.T) exported {
	t.Helper()
	all := exported{"up": {"job": {}, "instance": {}}} // which Prometheus makes of each scrape
	const policies = `policies:
  open: {limit: 3, window: 1h, on_store_error: open}
  closed: {limit: 1, window: 1h}
  trial: {limit: 0, window: 1h, shadow: true}
`
	file := filepath.Join(t.TempDir(), "policies.yaml")
	write := func(text string) {
		t.Helper()
		replaceFile(t, file, text)
	}
	hits := func(s *service) {
		t.Helper()
		for _, policies := range []string{`"open"`, `"open","closed"`, `"open","closed"`, `"open","trial"`, `"closed"`} {
			s.post(t, "/v1/hits", `{"key":"k","policies":[`+policies+`]}`)
		}
	}
	write(policies)
	s := serve(t, func(c *ratelimitlog.Config) { c.PolicyFile, c.ReloadEvery = file, time.Millisecond })
	hits(s)
	for _, change := range []struct{ text, told string }{{"policies: [", "failed"}, {policies + "# once more\n", "ok"}} {
		write(change.text)
		eventually(t, "the file is read again: "+change.told, func() bool {
			return strings.Contains(s.request(t, "GET", "/readyz").body, `"last_reload":"`+change.told)
		})
	}
	eventually(t, "refusals are counted", func() bool {
		return strings.Contains(s.request(t, "GET", "/v1/counters?key=k&policy=closed").body, `"refused":2`)
	})
	all.scrape(t, s)

	away := serve(t, func(c *ratelimitlog.Config) {
		c.DSN, c.PolicyFile = "postgres://postgres@127.0.0.1:1/none?sslmode=disable", file
	})
	hits(away)
	all.scrape(t, away)

	apart := serve(t, func(c *ratelimitlog.Config) {
		c.DSN, c.AuditDSN, c.PolicyFile = servicetest.Redis(t), "sqlite:"+filepath.Join(t.TempDir(), "log.db"), file
	})
	hits(apart)
	all.scrape(t, apart)
	return all
}

func TestDashboardAndAlertsAskForWhatServersExport(t *testing.T) {
	all := everything(t)
	used := map[string]bool{}
	for _, q := range append(readDashboard(t).queries(t), readAlerts(t).queries()...) {
		for _, fault := range all.check(q, used) {
			t.Error(fault)
		}
	}
	for name := range all {
		whole := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_sum"), "_count")
		if strings.HasPrefix(name, "ratelimitlog_") && !used[name] && !used[whole+"_bucket"] {
			t.Errorf("neither a panel nor an alert shows %s", name)
		}
	}
}

// The check above would find what it is there to find.
func TestTheCheckOfQueriesFindsWhatIsNotExported(t *testing.T) {
	all := exported{"m": {"job": {}, "policy": {"default": true}, "outcome": {"allowed": true, "refused": true}}}
	for text, good := range map[string]bool{
		`sum by (policy) (rate(m{outcome="allowed"}[5m])) > 0`: true,
		`m{policy="any",outcome=~"allowed|refused"}`:           true,
		`sum(rate(n[5m]))`:                  false,
		`m and on (job) absent(n)`:          false,
		`m{color="red"}`:                    false,
		`m{outcome="alowed"}`:               false,
		`m{outcome=~"allowed|lost"}`:        false,
		`sum by (polcy) (m)`:                false,
		`m / on (instance) m`:               false,
		`histogram_quantile(0.9, m_bucket)`: false,
		`1 + 1`:                             false,
		`sum(m`:                             false,
	} {
		if faults := all.check(query{where: "it", text: text}, map[string]bool{}); (len(faults) == 0) != good {
			t.Errorf("%s: %q", text, faults)
		}
	}
}

func TestDashboardIsWhole(t *testing.T) {
	d := readDashboard(t)
	variables := map[string]string{}
	for _, v := range d.Templating.List {
		variables[v.Name] = v.Type
	}
	if got := fmt.Sprint(variables); got != "map[datasource:datasource instance:query job:query policy:query]" {
		t.Errorf("variables: %s", got)
	}
	if d.SchemaVersion < 39 || d.UID == "" {
		t.Errorf("schema %d, UID %q", d.SchemaVersion, d.UID)
	}
	ids, taken := map[int]bool{}, map[[2]int]string{}
	for _, p := range d.Panels {
		if ids[p.ID] || p.ID == 0 || p.Title == "" {
			t.Errorf("panel %d %q: its id or title is missing or not its own", p.ID, p.Title)
		}
		ids[p.ID] = true
		if p.GridPos.X+p.GridPos.W > 24 || p.GridPos.W == 0 || p.GridPos.H == 0 {
			t.Errorf("%s is at %+v", p.Title, p.GridPos)
		}
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" {
					t.Fatalf("%s lies on %s", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if p.Description == "" || p.FieldConfig.Defaults.Unit == "" || p.Datasource.UID != "${datasource}" || len(p.Targets) == 0 {
			t.Errorf("%s lacks a description, a unit, the data source or a query", p.Title)
		}
	}
}

func TestEveryAlertIsExplainedAndTested(t *testing.T) {
	guide, err := os.ReadFile("docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	var tests struct {
		Tests []struct {
			AlertRuleTest []struct {
				Alertname string
				ExpAlerts []any `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	readYAML(t, "docs/alerts_test.yaml", &tests)
	fires, silent := map[string]bool{}, map[string]bool{}
	for _, test := range tests.Tests {
		for _, at := range test.AlertRuleTest {
			if len(at.ExpAlerts) > 0 {
				fires[at.Alertname] = true
			} else {
				silent[at.Alertname] = true
			}
		}
	}
	alerts := map[string]bool{}
	for _, group := range readAlerts(t).Groups {
		for _, rule := range group.Rules {
			alerts[rule.Alert] = true
			if !fires[rule.Alert] || !silent[rule.Alert] {
				t.Errorf("docs/alerts_test.yaml has no time at which %s fires, or none at which it does not", rule.Alert)
			}
			if want := "docs/operations.md#" + strings.ToLower(rule.Alert); !strings.HasSuffix(rule.Annotations["runbook_url"], want) {
				t.Errorf("%s: its runbook is not %s", rule.Alert, want)
			}
			if rule.Annotations["summary"] == "" || !slices.Contains([]string{"critical", "warning", "info"}, rule.Labels["severity"]) {
				t.Errorf("%s lacks a summary or a severity", rule.Alert)
			}
			if !strings.Contains(string(guide), "\n### "+rule.Alert+"\n") {
				t.Errorf("docs/operations.md does not say what to do about %s", rule.Alert)
			}
		}
	}
	for _, heading := range regexp.MustCompile(`(?m)^### (Ratelimitlog\w+)$`).FindAllStringSubmatch(string(guide), -1) {
		if !alerts[heading[1]] {
			t.Errorf("docs/operations.md explains %s, which is no alert", heading[1])
		}
	}
}

// promtool reads PromQL as Prometheus does.
func TestPromtoolTakesRulesQueriesAndConfiguration(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		servicetest.Missing(t, "there is no promtool in PATH")
	}
	dir := t.TempDir()
	type rule struct {
		Record string `json:"record"`
		Expr   string `json:"expr"`
	}
	var rules []rule // of each query one
	for i, q := range readDashboard(t).queries(t) {
		rules = append(rules, rule{fmt.Sprintf("query:%d", i), q.text})
	}
	text, err := json.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": rules}}}) // JSON is YAML
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "queries.yaml"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{"docs/deploy/prometheus.yml": "prometheus.yml", "docs/alerts.yaml": "alerts.yaml"} { // as compose.yaml puts them
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, to), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{
		{"check", "rules", "docs/alerts.yaml"},
		{"test", "rules", "docs/alerts_test.yaml"},
		{"check", "rules", filepath.Join(dir, "queries.yaml")},
		{"check", "config", filepath.Join(dir, "prometheus.yml")},
	} {
		if out, err := exec.Command(promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %q: %v\n%s", args, err, out)
		}
	}
}
