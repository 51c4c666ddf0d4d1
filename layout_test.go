package ratelimitlog_test

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/nene2-ft/ratelimitlog"

// law says what the packages of a directory may import besides the standard
// library: packages of this module by their path in it, others by the module they
// come from. The first entry that matches counts.
var law = []struct {
	dir     string
	allowed []string
}{
	{"domain/storetest", []string{"domain"}},
	{"domain", nil},
	{"application", []string{"domain"}},
	{"migrations", nil},
	{"infrastructure/redisstore", []string{"domain", "github.com/redis/go-redis/v9"}},
	{"infrastructure/gormstore", []string{"domain", "migrations", "gorm.io/gorm", "gorm.io/driver/sqlite", "gorm.io/driver/postgres", "github.com/mattn/go-sqlite3", "github.com/jackc/pgx/v5", "github.com/pressly/goose/v3"}},
	{"infrastructure/servicetest", []string{"github.com/jackc/pgx/v5", "github.com/redis/go-redis/v9"}}, // for tests
	{"infrastructure/memstore", []string{"domain"}},
	{"infrastructure/policyfile", []string{"domain", "github.com/goccy/go-yaml"}},
	{"infrastructure/metrics", []string{"domain", "github.com/prometheus/client_golang"}},
	{"infrastructure/logging", []string{"go.uber.org/zap"}},
	{"docs/adapters/journal", []string{"domain"}}, // the example of docs/adapters.md
	{"interfaces/problem", []string{"domain"}},
	{"interfaces/dashboard", nil},
	{"interfaces/httpapi/openapitest", []string{"github.com/goccy/go-yaml", "github.com/santhosh-tekuri/jsonschema/v6"}}, // for tests
	{"interfaces/httpapi", []string{"domain", "application", "interfaces/problem", "github.com/gofiber/fiber/v2", "github.com/valyala/fasthttp", "go.uber.org/zap"}}, // fasthttp is what Fiber stands on
	// The composition root sees everything of this module, and passes the logger on.
	{"", []string{"domain", "application", "infrastructure/...", "interfaces/...", "github.com/google/wire", "go.uber.org/zap"}},
	// Commands see the root and the words of the domain; of the driver they only tell the version.
	{"cmd/ratelimitlog", []string{"", "domain", "application", "infrastructure/policyfile", "interfaces/problem", "github.com/alecthomas/kong", "github.com/mattn/go-sqlite3"}},
}

// The import law, kept by the imports that the compiler sees.
func TestImportsFollowTheLaw(t *testing.T) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports,Standard,Module", "-deps", "./...").Output()
	if err != nil {
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			t.Fatalf("go list: %v: %s", err, failed.Stderr)
		}
		t.Fatal(err)
	}
	type listed struct {
		ImportPath string
		Imports    []string
		Standard   bool
		Module     *struct{ Path string }
	}
	moduleOf := map[string]string{} // import path to module, "" for the standard library
	var ours []listed
	decoder := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p listed
		if err := decoder.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if p.Module != nil {
			moduleOf[p.ImportPath] = p.Module.Path
		} else if !p.Standard && p.ImportPath != "C" {
			t.Errorf("%s belongs to no module", p.ImportPath)
		}
		if p.Module != nil && p.Module.Path == module {
			ours = append(ours, p)
		}
	}
	for _, p := range ours {
		dir := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		at := slices.IndexFunc(law, func(l struct {
			dir     string
			allowed []string
		}) bool {
			return l.dir == dir
		})
		if at < 0 {
			t.Errorf("the law does not know the package %s", dir)
			continue
		}
		for _, imported := range p.Imports {
			from := moduleOf[imported]
			if from == "" {
				continue
			}
			if from == module {
				from = strings.TrimPrefix(strings.TrimPrefix(imported, module), "/")
			}
			if !slices.ContainsFunc(law[at].allowed, func(pattern string) bool {
				prefix, all := strings.CutSuffix(pattern, "/...")
				return from == pattern || all && strings.HasPrefix(from, prefix+"/")
			}) {
				t.Errorf("%q must not import %q", dir, from)
			}
		}
	}
	if len(ours) != len(law) {
		t.Errorf("the law is about %d packages, there are %d", len(law), len(ours))
	}
}

func TestTheTopLevelStays(t *testing.T) {
	want := []string{"application", "cmd", "docs", "domain", "infrastructure", "interfaces", "migrations"}
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if name := entry.Name(); entry.IsDir() && !strings.HasPrefix(name, ".") && !slices.Contains(want, name) && path.Base(name) != "bin" {
			t.Errorf("the directory %s is new at the top level", name)
		}
	}
}
