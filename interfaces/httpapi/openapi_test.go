package httpapi

import (
	"bufio"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/nene2-ft/ratelimitlog/interfaces/dashboard"
	"github.com/nene2-ft/ratelimitlog/interfaces/httpapi/openapitest"
)

// witness holds every answer in this package's tests to the description.
var witness *openapitest.Witness

func TestMain(m *testing.M) {
	var err error
	if witness, err = openapitest.NewWitness(Description); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(openapitest.Main(m, witness))
}

// read reads the answer to what was sent.
func read(from *bufio.Reader, sent string) (*http.Response, error) {
	response, err := http.ReadResponse(from, nil)
	if err == nil {
		witness.Watch(openapitest.ReadRequest(sent), response)
	}
	return response, err
}

func loadSpec(t *testing.T) *openapitest.Spec {
	t.Helper()
	spec, err := openapitest.Load(Description)
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

// Another validator is run beside the tests, see .ci/run.
func TestTheDescriptionIsValid(t *testing.T) {
	document, err := openapi3.NewLoader().LoadFromData(Description)
	if err != nil {
		t.Fatal(err)
	}
	if !document.IsOpenAPI31OrLater() {
		t.Errorf("it is of OpenAPI %s", document.OpenAPI)
	}
	if err := document.Validate(t.Context(), openapi3.EnableSchemaPatternValidation(), openapi3.EnableExamplesValidation()); err != nil {
		t.Error(err)
	}
}

func TestEveryRouteIsDescribedAndWhatIsDescribedExists(t *testing.T) {
	spec := loadSpec(t)
	pages := dashboard.Pages()
	pages["/metrics"] = http.NotFoundHandler()
	s := newTestServerWith(t, 1, Options{timeout: time.Minute, Pages: pages})
	exists := map[string]bool{}
	for _, route := range s.app.GetRoutes(true) {
		path := regexp.MustCompile(`:(\w+)`).ReplaceAllString(route.Path, "{$1}")
		if !spec.Describes(route.Method, path) {
			path, _ = spec.Path(path) // a file of a page
		}
		if !spec.Describes(route.Method, path) {
			t.Errorf("%s %s is not described", route.Method, route.Path)
		}
		exists[route.Method+" "+path] = true
	}
	spec.Operations(func(method, path string) {
		if _, isFile := strings.CutSuffix(path, "/{file}"); !exists[method+" "+path] && !isFile { // a page may have no other files
			t.Errorf("%s %s is described, and there is nothing", method, path)
		}
	})
}

// Whatever status the server's code names is one that it may answer with.
func TestEveryStatusThatTheServerNamesIsDescribed(t *testing.T) {
	spec := loadSpec(t)
	codes := map[string]int{} // by the name of the constant, which says the same as the text
	for code := range 600 {
		codes["Status"+regexp.MustCompile(`[^A-Za-z]`).ReplaceAllString(http.StatusText(code), "")] = code
	}
	named := map[int]bool{}
	for _, pattern := range []string{"*.go", "../problem/*.go", "../dashboard/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(parsed, func(n ast.Node) bool {
				selector, ok := n.(*ast.SelectorExpr)
				if !ok || selector.Sel.Name == "StatusText" || selector.Sel.Name == "StatusCode" || !strings.HasPrefix(selector.Sel.Name, "Status") {
					return true
				}
				code, known := codes[selector.Sel.Name]
				if of, ok := selector.X.(*ast.Ident); ok && (of.Name == "fiber" || of.Name == "http") {
					if named[code] = true; !known {
						t.Errorf("%s: which status is %s?", file, selector.Sel.Name)
					}
				}
				return true
			})
		}
	}
	if len(named) < 15 {
		t.Errorf("the code names the statuses %v", named)
	}
	for code := range named {
		if !spec.DescribesStatus(code) {
			t.Errorf("the status %d is not described", code)
		}
	}
}
