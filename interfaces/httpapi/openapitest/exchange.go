package openapitest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Exchange is a request and its answer.
type Exchange struct {
	Method string // "" if the request could not be read
	URL    *url.URL
	Header http.Header
	// Sent is the body of the request.
	Sent []byte

	Status         int
	ResponseHeader http.Header
	// Body is what was read of the answer's body, and Whole whether that is all.
	Body  []byte
	Whole bool
}

// Check says what of the exchange is not as it is described, or nil. An answer must be
// described: its status, its headers, and its body. A request that was accepted, with a
// status of 2xx, must be one that may be sent.
func (s *Spec) Check(e *Exchange) error {
	responses, operation, parameters := s.responses(e)
	code := strconv.Itoa(e.Status)
	response := responses.child(code)
	if !response.exists() {
		response = s.root.child("x-unread", "responses", code)
	}
	if !response.exists() {
		return fmt.Errorf("the status %d is not described", e.Status)
	}
	errs := []error{e.checkHeader(response), e.checkBody(response)}
	if operation.exists() && e.Status < 300 {
		errs = append(errs, e.checkRequest(operation, parameters))
	}
	return errors.Join(errs...)
}

// operation is what is described of a request, with what is said of its path.
type operation struct {
	node
	path node
}

// responses are those that the request may have, of its operation if it is described.
func (s *Spec) responses(e *Exchange) (node, operation, map[string]string) {
	if e.Method == "" {
		return node{spec: s}, operation{}, nil
	}
	described, parameters := s.Path(e.URL.EscapedPath())
	path := s.root.child("paths", described)
	at := operation{path.child(strings.ToLower(e.Method)), path}
	if !at.exists() || e.Method != strings.ToUpper(e.Method) { // methods are told apart by case
		return s.root.child("x-elsewhere", "responses"), operation{}, nil
	}
	return at.child("responses"), at, parameters
}

// undescribed are headers of HTTP itself and of the Fetch standard, which any answer may have.
var undescribed = []string{
	"Allow", "Connection", "Content-Length", "Content-Type", "Date", "Transfer-Encoding", "Vary",
	"Access-Control-Allow-Credentials", "Access-Control-Allow-Headers", "Access-Control-Allow-Methods",
	"Access-Control-Allow-Origin", "Access-Control-Expose-Headers", "Access-Control-Max-Age",
}

// checkHeader holds the header of the answer to what is described.
func (e *Exchange) checkHeader(response node) error {
	var errs []error
	known := slices.Clone(undescribed)
	headers := response.child("headers")
	for name := range headers.members {
		header, name := headers.child(name), http.CanonicalHeaderKey(name)
		known = append(known, name)
		switch values := e.ResponseHeader[name]; {
		case len(values) > 1:
			errs = append(errs, fmt.Errorf("the header %s is there %d times", name, len(values)))
		case len(values) == 1:
			if err := header.child("schema").check(header.child("schema").read(values[0])); err != nil {
				errs = append(errs, fmt.Errorf("the header %s: %w", name, err))
			}
		case header.members["required"] == true:
			errs = append(errs, fmt.Errorf("the header %s is missing", name))
		}
	}
	for name := range e.ResponseHeader {
		if !slices.Contains(known, name) {
			errs = append(errs, fmt.Errorf("the header %s is not described", name))
		}
	}
	return errors.Join(errs...)
}

// checkBody holds the body of the answer, as far as it is known, to what is described.
func (e *Exchange) checkBody(response node) error {
	content := response.child("content")
	kind := e.ResponseHeader.Get("Content-Type")
	if !content.exists() || e.Status == http.StatusNotModified {
		if len(e.Body) > 0 {
			return fmt.Errorf("a body is not described: %.100q", e.Body)
		}
		return nil
	}
	name, _, err := mime.ParseMediaType(kind)
	if err != nil {
		return fmt.Errorf("Content-Type %q: %w", kind, err)
	}
	media := content.child(name)
	if !media.exists() {
		return fmt.Errorf("Content-Type %q is not described", kind)
	}
	switch {
	case e.Method == http.MethodHead:
		if len(e.Body) > 0 {
			return fmt.Errorf("the answer to HEAD has a body: %.100q", e.Body)
		}
	case e.ResponseHeader.Get("Content-Encoding") != "": // the client asked for it and knows what to do
	case media.child("x-itemSchema").exists():
		return e.checkLines(media.child("x-itemSchema"))
	case !e.Whole:
	case strings.HasSuffix(name, "json"):
		return checkJSON(media.child("schema"), e.Body)
	default:
		return media.child("schema").check(string(e.Body))
	}
	return nil
}

// checkLines holds each line of the body to the schema.
func (e *Exchange) checkLines(schema node) error {
	for line := range bytes.Lines(e.Body) {
		whole := bytes.HasSuffix(line, []byte("\n"))
		if !whole && !e.Whole {
			break
		}
		if !whole {
			return fmt.Errorf("the last line has no end: %.100q", line)
		}
		if err := checkJSON(schema, line); err != nil {
			return err
		}
	}
	return nil
}

func checkJSON(schema node, text []byte) error {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("the body is not JSON: %w: %.100q", err, text)
	}
	if err := schema.check(value); err != nil {
		return fmt.Errorf("the body %.1000s: %w", text, err)
	}
	return nil
}

// checkRequest holds a request that was accepted to what is described.
func (e *Exchange) checkRequest(at operation, inPath map[string]string) error {
	var errs []error
	query, err := url.ParseQuery(e.URL.RawQuery)
	asksByQuery := false
	errs = append(errs, err)
	for _, parameter := range append(at.path.list("parameters"), at.list("parameters")...) {
		name, _ := parameter.members["name"].(string)
		var values []string
		switch parameter.members["in"] {
		case "query":
			asksByQuery = true
			values = query[name]
			delete(query, name)
		case "header":
			values = e.Header.Values(name)
			if strings.Join(values, "") == "" { // which is none
				values = nil
			}
		case "path":
			values = []string{inPath[name]}
		}
		switch {
		case len(values) > 1:
			errs = append(errs, fmt.Errorf("accepted with %d values of the parameter %s", len(values), name))
		case len(values) == 1:
			if err := parameter.child("schema").check(parameter.child("schema").read(values[0])); err != nil {
				errs = append(errs, fmt.Errorf("accepted with the parameter %s: %w", name, err))
			}
		case parameter.members["required"] == true:
			errs = append(errs, fmt.Errorf("accepted without the parameter %s", name))
		}
	}
	if asksByQuery { // others do not look at it
		for name := range query {
			errs = append(errs, fmt.Errorf("accepted with the parameter %s, which is not described", name))
		}
	}
	if !e.mayAsk(at) {
		errs = append(errs, errors.New("accepted without a token"))
	}
	if body := at.child("requestBody"); body.exists() {
		if err := checkJSON(body.child("content", "application/json", "schema"), e.Sent); err != nil {
			errs = append(errs, fmt.Errorf("accepted: %w", err))
		}
	}
	return errors.Join(errs...)
}

// mayAsk reports whether the request has a token if there must be one. Whether it is
// the right one is the server's to say.
func (e *Exchange) mayAsk(at operation) bool {
	requirements, _ := at.members["security"].([]any)
	open := len(requirements) == 0 || slices.ContainsFunc(requirements, func(r any) bool {
		schemes, _ := r.(map[string]any)
		return len(schemes) == 0
	})
	return open || strings.HasPrefix(strings.ToLower(e.Header.Get("Authorization")), "bearer ")
}

// read makes a value of a text, as the schema n would have it: a number, a truth value,
// a list, else the text.
func (n node) read(text string) any {
	schema := n
	for schema.members["$ref"] != nil {
		to, _ := schema.members["$ref"].(string)
		schema = n.spec.root.child(strings.Split(strings.TrimPrefix(to, "#/"), "/")...)
	}
	switch schema.members["type"] {
	case "integer", "number":
		if json.Valid([]byte(text)) {
			return json.Number(text)
		}
	case "boolean":
		if value, err := strconv.ParseBool(text); err == nil {
			return value
		}
	case "array":
		var items []any
		for item := range strings.SplitSeq(text, ",") {
			items = append(items, schema.child("items").read(item))
		}
		return items
	}
	return text
}
