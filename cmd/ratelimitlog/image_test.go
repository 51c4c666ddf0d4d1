package main

import (
	"bufio"
	"debug/elf"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/nene2-ft/ratelimitlog/infrastructure/servicetest"
)

// instructions are those of a Dockerfile, each in one line, in their order.
func instructions(t *testing.T, file string) (all []string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text = regexp.MustCompile(`(?m)^#.*\n`).ReplaceAll(text, nil)
	for line := range strings.Lines(strings.ReplaceAll(string(text), "\\\n", " ")) {
		if line = strings.Join(strings.Fields(line), " "); line != "" {
			all = append(all, line)
		}
	}
	return all
}

// The program is built as the Dockerfile says and runs where nothing else is, as the
// user of the image, who may write to /data alone.
func TestTheProgramOfTheImageNeedsNothingElse(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it builds everything anew, and the race detector is not in what it builds")
	}
	if os.Getuid() != 0 {
		servicetest.Missing(t, "only root may change its root")
	}
	root := t.TempDir()
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	built := 0
	var env []string
	for _, line := range instructions(t, "../../Dockerfile") {
		if vars, is := strings.CutPrefix(line, "ENV "); is {
			env = append(env, strings.Fields(vars)...)
		}
		if command, is := strings.CutPrefix(line, "RUN "); is && strings.Contains(command, "go build") {
			built++
			command = regexp.MustCompile(`--mount=\S+ `).ReplaceAllString(command, "")
			build := exec.Command("sh", "-ec", strings.ReplaceAll(command, "/out/", root+"/"))
			build.Dir = "../.."
			out, err := build.CombinedOutput()
			if err != nil {
				t.Fatalf("%s: %v\n%s", build, err, out)
			}
			if strings.Contains(string(out), "warning") {
				t.Errorf("the build warns:\n%s", out)
			}
		}
	}
	if built != 1 {
		t.Fatalf("%d instructions of the Dockerfile build", built)
	}
	program, err := elf.Open(filepath.Join(root, "ratelimitlog"))
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	for _, p := range program.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("the program is not static: it has %s", p.Type)
		}
	}

	const nonroot = 65532
	data := filepath.Join(root, "data") // made by the Dockerfile
	if err := os.Chown(data, nonroot, nonroot); err != nil {
		t.Fatal(err)
	}
	inside := func(args ...string) *exec.Cmd {
		command := exec.Command("/ratelimitlog", args...)
		command.Dir = "/data"
		command.Env = env
		command.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: nonroot, Gid: nonroot}}
		return command
	}
	serve := inside("serve", "--addr=127.0.0.1:0", "--limit=2", "--window=calendar year Asia/Tokyo")
	var log strings.Builder
	serve.Stderr = &log
	out, err := serve.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := serve.Start(); err != nil {
		servicetest.Missing(t, "the program cannot be run in a root of its own: %v", err)
	}
	defer serve.Process.Kill()
	line, _ := bufio.NewReader(out).ReadString('\n')
	found := listens.FindStringSubmatch(line)
	if found == nil {
		serve.Wait()
		t.Fatalf("serve printed %q\n%s", line, &log)
	}
	for i, want := range []int{200, 200, 429} {
		response, err := http.Get(found[1] + "/ping")
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("ping %d: %s", i+1, body)
		}
		if i == 0 && !strings.Contains(string(body), `-12-31T15:00:00Z"`) {
			t.Errorf("the year does not end in Tokyo: %s", body)
		}
	}
	for _, args := range [][]string{{"health", found[1]}, {"status", "127.0.0.1"}, {"backup", "copy.db"}, {"verify", "--dsn=sqlite:copy.db"}} {
		if out, err := inside(args...).CombinedOutput(); err != nil {
			t.Errorf("%q: %v\n%s", args, err, out)
		}
	}
	serve.Process.Signal(syscall.SIGTERM)
	if err := serve.Wait(); err != nil {
		t.Errorf("serve: %v\n%s", err, &log)
	}
	if _, err := os.Stat(filepath.Join(data, "ratelimitlog.db")); err != nil {
		t.Errorf("the database is not in the volume: %v", err)
	}
}
