package main

import (
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// documents are the files that tell people and machines what to type.
func documents(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, pattern := range []string{"*.md", "Dockerfile", "compose.yaml", "docs/*.md", "docs/*.yaml", "docs/adr/*.md", "docs/deploy/*"} {
		files, err := filepath.Glob("../../" + pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %q, %v", pattern, files, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			texts[strings.TrimPrefix(file, "../../")] = string(text)
		}
	}
	return texts
}

// parser is the program's own.
func parser(t *testing.T) *kong.Kong {
	t.Helper()
	parser, err := newParser(&cli{}, io.Discard, io.Discard, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	return parser
}

// variables are the environment variables of all flags.
func variables(node *kong.Node) map[string]bool {
	all := map[string]bool{}
	for _, flag := range node.Flags {
		for _, name := range flag.Envs {
			all[name] = true
		}
	}
	for _, child := range node.Children {
		maps.Copy(all, variables(child))
	}
	return all
}

func TestEveryVariableInTheDocumentsExists(t *testing.T) {
	known := variables(parser(t).Model.Node)
	if !known["RATELIMITLOG_ADDR"] || !known["RATELIMITLOG_DSN"] {
		t.Fatalf("the variables of the program: %v", slices.Sorted(maps.Keys(known)))
	}
	forTests := regexp.MustCompile(`^RATELIMITLOG_(TEST_[A-Z]+|REQUIRE_SERVICES)$`)
	found := 0
	for file, text := range documents(t) {
		for _, name := range regexp.MustCompile(`\bRATELIMITLOG_[A-Z0-9_]+`).FindAllString(text, -1) {
			found++
			if !known[name] && !forTests.MatchString(name) {
				t.Errorf("%s: %s is the variable of no flag", file, name)
			}
		}
	}
	if found < 20 {
		t.Errorf("%d variables found", found)
	}
}

// call finds the program where it is called, and what follows in the same command.
var call = regexp.MustCompile(`(?m)(?:^|[\s"\x60(=]|\./|/usr/local/bin/|cmd/)ratelimitlog((?:[ \t]+(?:"[^"\n]*"|'[^'\n]*'|[^\s"'\x60#|&;<>()\\·]+|\\\n)+)+)`)

// beginsCommand is how what follows begins, if it is not the name of an image or of a directory.
var beginsCommand = regexp.MustCompile(`^(--[a-z]|[a-z]+(\s|$))`)

// commandLines are the calls of the program in a text: in Markdown those in code, in other
// files those in comments too.
func commandLines(file, text string) (all []string) {
	if strings.HasSuffix(file, ".md") {
		var code strings.Builder
		for i, part := range strings.Split(text, "```") {
			if i%2 == 1 {
				code.WriteString(part + "\n")
				continue
			}
			for _, inline := range regexp.MustCompile("`[^`]+`").FindAllString(part, -1) {
				code.WriteString(strings.ReplaceAll(inline, "\n", " ") + "\n")
			}
		}
		text = code.String()
	}
	for _, found := range call.FindAllStringSubmatch(text, -1) {
		if args := strings.TrimSpace(strings.ReplaceAll(found[1], "\\\n", " ")); beginsCommand.MatchString(args) && args != "listens on http://127.0.0.1:8080" { // which it prints
			all = append(all, args)
		}
	}
	return all
}

func TestEveryCommandLineInTheDocumentsIsUnderstood(t *testing.T) {
	lines := map[string]string{} // to a file that has it
	for file, text := range documents(t) {
		for _, found := range commandLines(file, text) {
			lines[found] = file
		}
	}
	for name, service := range readComposition(t).Services {
		if len(service.Command) > 0 {
			lines[strings.Join(service.Command, " ")] = "compose.yaml, " + name
		}
	}
	for _, instruction := range instructions(t, "../../Dockerfile") {
		if list, is := strings.CutPrefix(instruction, "CMD "); is {
			lines[strings.Trim(list, `[]"`)] = "Dockerfile"
		}
		if _, list, is := strings.Cut(instruction, ` CMD ["/ratelimitlog", `); is {
			lines[strings.Trim(list, `[]"`)] = "Dockerfile"
		}
	}
	named := map[string]bool{} // alone a command is only named
	for _, command := range parser(t).Model.Children {
		named[command.Name] = true
	}
	words := regexp.MustCompile(`"[^"]*"|'[^']*'|\S+`)
	for _, at := range slices.Sorted(maps.Keys(lines)) {
		var args []string
		for _, word := range words.FindAllString(at, -1) {
			args = append(args, strings.Trim(word, `"'`))
		}
		if _, err := parser(t).Parse(args); err != nil && !named[at] {
			t.Errorf("%s: ratelimitlog %s: %v", lines[at], at, err)
		}
	}
	for _, want := range []string{"serve", "migrate", "health", "serve --policies docs/policies/login.yaml"} {
		if lines[want] == "" {
			t.Errorf("%q was not found, of %q", want, slices.Sorted(maps.Keys(lines)))
		}
	}
}
