// Package openapitest holds HTTP exchanges to the description of an API (OpenAPI 3.1).
// It is for tests. It is stricter than the description's readers need to be: what is
// not described must not be answered, headers included, and what the server accepts
// must be allowed to be sent.
package openapitest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Spec is a description of an API. It is safe for concurrent use.
type Spec struct {
	root     node
	paths    []string // as they are described, those without parameters first
	mu       sync.Mutex
	compiler *jsonschema.Compiler
	schemas  map[string]*jsonschema.Schema // by their place
}

// source is the name that the description has in messages.
const source = "spec:///openapi.yaml"

// Load reads a description in YAML or JSON. Whether it is valid as such is for others to say.
func Load(description []byte) (*Spec, error) {
	var document any
	if err := yaml.Unmarshal(description, &document); err != nil {
		return nil, fmt.Errorf("reading %s: %w", source, err)
	}
	text, err := json.Marshal(document) // what YAML knows beyond JSON is gone then
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", source, err)
	}
	if document, err = jsonschema.UnmarshalJSON(bytes.NewReader(text)); err != nil {
		return nil, fmt.Errorf("reading %s: %w", source, err)
	}
	members, ok := document.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s is no object", source)
	}
	s := &Spec{schemas: map[string]*jsonschema.Schema{}, compiler: jsonschema.NewCompiler()}
	s.root = node{spec: s, members: members}
	s.compiler.AssertFormat()
	for name, bits := range map[string]int{"int32": 32, "int64": 64} {
		s.compiler.RegisterFormat(&jsonschema.Format{Name: name, Validate: func(value any) error {
			if number, ok := value.(json.Number); ok {
				_, err := strconv.ParseInt(number.String(), 10, bits)
				return err
			}
			return nil
		}})
	}
	if err := s.compiler.AddResource(source, document); err != nil {
		return nil, fmt.Errorf("reading %s: %w", source, err)
	}
	for _, templated := range []bool{false, true} {
		for path := range s.root.child("paths").members {
			if strings.Contains(path, "{") == templated {
				s.paths = append(s.paths, path)
			}
		}
	}
	return s, nil
}

// Path is the described path that a request's path is one of, with the values of its
// parameters; "" if there is none.
func (s *Spec) Path(path string) (described string, parameters map[string]string) {
	for _, described := range s.paths {
		if parameters, ok := match(described, path); ok {
			return described, parameters
		}
	}
	return "", nil
}

func match(described, path string) (map[string]string, bool) {
	if described == path {
		return nil, true
	}
	want, got := strings.Split(described, "/"), strings.Split(path, "/")
	if len(want) != len(got) {
		return nil, false
	}
	parameters := map[string]string{}
	for i, part := range want {
		name, isParameter := strings.CutPrefix(part, "{")
		value, err := url.PathUnescape(got[i])
		switch {
		case isParameter && value != "" && err == nil:
			parameters[strings.TrimSuffix(name, "}")] = value
		case part != got[i]:
			return nil, false
		}
	}
	return parameters, true
}

// Describes reports whether the operation is described.
func (s *Spec) Describes(method, path string) bool {
	_, ok := s.root.child("paths", path).members[strings.ToLower(method)]
	return ok
}

// Operations calls each for every operation that is described.
func (s *Spec) Operations(each func(method, path string)) {
	for _, path := range s.paths {
		for _, method := range []string{"get", "head", "post", "put", "delete", "options", "patch", "trace"} {
			if _, ok := s.root.child("paths", path).members[method]; ok {
				each(strings.ToUpper(method), path)
			}
		}
	}
}

// DescribesStatus reports whether the status is described, of an operation or elsewhere.
func (s *Spec) DescribesStatus(status int) bool {
	code, found := fmt.Sprint(status), false
	for _, other := range []string{"x-unread", "x-elsewhere"} {
		found = found || s.root.child(other, "responses", code).exists()
	}
	s.Operations(func(method, path string) {
		found = found || s.root.child("paths", path, strings.ToLower(method), "responses", code).exists()
	})
	return found
}

// node is an object in the description.
type node struct {
	spec    *Spec
	at      string // a JSON Pointer
	members map[string]any
}

func (n node) exists() bool { return n.members != nil }

// child is the object at names below n, references being followed; it does not exist
// if there is none.
func (n node) child(names ...string) node {
	for _, name := range names {
		value := n.members[name]
		n = node{spec: n.spec, at: n.at + "/" + escape(name)}
		n.members, _ = value.(map[string]any)
		if to, ok := n.members["$ref"].(string); ok && len(n.members) == 1 {
			n = n.spec.root.child(strings.Split(strings.TrimPrefix(to, "#/"), "/")...)
		}
	}
	return n
}

// escape makes a part of a JSON Pointer (RFC 6901).
func escape(name string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(name) }

// list are the objects of a list that is a member of n.
func (n node) list(name string) (items []node) {
	values, _ := n.members[name].([]any)
	holder := node{spec: n.spec, at: n.at + "/" + name, members: map[string]any{}}
	for i, value := range values {
		index := fmt.Sprint(i)
		holder.members[index] = value
		items = append(items, holder.child(index))
	}
	return items
}

// check holds a value, as jsonschema.UnmarshalJSON makes it, to the schema n.
func (n node) check(value any) error {
	schema, err := n.spec.schema(n.at)
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

func (s *Spec) schema(at string) (*jsonschema.Schema, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if schema := s.schemas[at]; schema != nil {
		return schema, nil
	}
	schema, err := s.compiler.Compile(source + "#" + (&url.URL{Fragment: at}).EscapedFragment())
	if err == nil {
		s.schemas[at] = schema
	}
	return schema, err
}
