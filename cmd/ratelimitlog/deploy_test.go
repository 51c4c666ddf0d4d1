package main

import (
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/nene2-ft/ratelimitlog/infrastructure/servicetest"
)

// composition is what compose.yaml must have.
type composition struct {
	Services map[string]struct {
		Image, Restart string
		Build          string
		Command        []string
		Volumes        []string
		Environment    map[string]string
		Networks       map[string]struct {
			Address string `yaml:"ipv4_address"`
		}
		DependsOn map[string]any `yaml:"depends_on"`
		ReadOnly  bool           `yaml:"read_only"`
	}
}

func readComposition(t *testing.T) (c composition) {
	t.Helper()
	text, err := os.ReadFile("../../compose.yaml")
	if err == nil {
		err = yaml.UnmarshalWithOptions(text, &c, yaml.AllowDuplicateMapKey()) // what is merged may be replaced
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestTheCompositionFitsTogether(t *testing.T) {
	c := readComposition(t)
	read := func(file string) string {
		t.Helper()
		text, err := os.ReadFile("../../docs/deploy/" + file)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	var replicas []string
	for name, service := range c.Services {
		if service.Build != "" && len(service.Command) == 0 {
			replicas = append(replicas, name+":8080")
		}
		if !strings.Contains(service.Image, ":") && service.Build == "" {
			t.Errorf("%s: the image %s has no version", name, service.Image)
		}
		if service.Build != "" && !service.ReadOnly {
			t.Errorf("%s may write to its image", name)
		}
		for _, volume := range service.Volumes {
			file, _, _ := strings.Cut(volume, ":")
			if _, err := os.Stat("../../" + file); strings.HasPrefix(file, "./") && err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if service.Build != "" && !slices.Contains(service.Volumes, "./docs/deploy:"+path.Dir(service.Environment["RATELIMITLOG_POLICIES"])+":ro") {
			t.Errorf("%s: the directory of the policy file, which may be replaced, is not mounted: %q", name, service.Volumes)
		}
		for needed := range service.DependsOn {
			if _, there := c.Services[needed]; !there {
				t.Errorf("%s depends on %s, which is no service", name, needed)
			}
		}
	}
	slices.Sort(replicas)
	if len(replicas) != 2 {
		t.Errorf("replicas: %q", replicas)
	}
	for file, pattern := range map[string]string{"nginx.conf": `(?m)^\s+server (\S+:\d+)`, "prometheus.yml": `"(\S+:\d+)"`} {
		var asked []string
		for _, found := range regexp.MustCompile(pattern).FindAllStringSubmatch(read(file), -1) {
			asked = append(asked, found[1])
		}
		if !slices.Equal(asked, replicas) {
			t.Errorf("%s asks %q, there are %q", file, asked, replicas)
		}
	}
	if proxy := c.Services["proxy"].Networks["inside"].Address; proxy == "" || !strings.Contains(read("policies.yaml"), "trusted_proxies: ["+proxy+"]") {
		t.Errorf("policies.yaml does not trust the proxy at %q, or not it alone", proxy)
	}
	addresses := map[string]string{}
	for name, service := range c.Services {
		at := service.Networks["inside"].Address
		if other := addresses[at]; at != "" && other != "" {
			t.Errorf("%s and %s have the address %s", name, other, at)
		}
		addresses[at] = name
	}
	for _, needed := range []string{"POSTGRES_PASSWORD", "RATELIMITLOG_ADMIN_TOKEN", "RATELIMITLOG_CLIENT_TOKEN"} { // without it nothing starts
		if !slices.ContainsFunc(slices.Collect(maps.Values(c.Services["ratelimitlog-1"].Environment)), func(value string) bool { return value == "${"+needed+":?}" }) {
			t.Errorf("the replicas do without %s", needed)
		}
	}
	policies := writeFile(t, "policies.yaml", read(path.Base(c.Services["ratelimitlog-1"].Environment["RATELIMITLOG_POLICIES"])))
	newCommand(t).want(0, []string{"policies", "check", policies})
}

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// systemd is asked whether it takes the unit, and how much the service could do to the
// machine, in tenths of its scale.
func TestTheUnitIsRightAndHardened(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		servicetest.Missing(t, "there is no systemd-analyze in PATH")
	}
	text, err := os.ReadFile("../../docs/deploy/ratelimitlog.service")
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable() // the program must be there
	if err != nil {
		t.Fatal(err)
	}
	unit := writeFile(t, "ratelimitlog.service", strings.ReplaceAll(string(text), "/usr/local/bin/ratelimitlog ", self+" "))
	if out, err := exec.Command(analyze, "--man=no", "verify", unit).CombinedOutput(); err != nil || strings.Contains(string(out), "ratelimitlog.service") {
		t.Errorf("verify: %v\n%s", err, out)
	}
	if out, err := exec.Command(analyze, "security", "--no-pager", "--offline=yes", "--threshold=15", unit).CombinedOutput(); err != nil {
		t.Errorf("security: %v\n%s", err, out)
	}
}
