package main

import (
	"bufio"
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// process is a server that was started.
type process struct {
	cmd     *exec.Cmd
	address string // host:port
	dir     string // its working directory, removed when it stops
}

// policyFile is written into the working directory of every process, under
// policyPath.
//
//go:embed policies.yaml
var policyFile []byte

const policyPath = "policies.yaml"

// start runs a scenario's server in a directory that holds nothing but the
// policies, and waits until it says where it listens.
func start(ctx context.Context, o options, s scenario) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "ratelimitlog-bench-")
	if err != nil {
		return nil, err
	}
	p := &process{dir: dir}
	if s.role != "" {
		p.cmd = exec.CommandContext(ctx, self, "-role", s.role, "-dsn", s.dsn)
	} else {
		p.cmd = exec.CommandContext(ctx, o.server, append([]string{"serve", "--addr", "127.0.0.1:0"}, s.args...)...)
	}
	p.cmd.Dir = dir
	if err := os.WriteFile(filepath.Join(dir, policyPath), policyFile, 0o644); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd.Stderr = log
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	_, address, found := strings.Cut(line, "http://")
	if err != nil || !found {
		p.stop()
		return nil, fmt.Errorf("the server did not say where it listens: %q, %v", line, err)
	}
	p.address = strings.TrimSpace(address)
	return p, nil
}

// stop ends the server and removes what it left.
func (p *process) stop() {
	p.cmd.Process.Signal(syscall.SIGTERM)
	p.cmd.Wait()
	os.RemoveAll(p.dir)
}

// memory reads a field of the process's status in bytes: VmRSS is what is resident
// now, VmHWM the most that ever was.
func (p *process) memory(field string) (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			kib, err := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("no %s in the status of process %d", field, p.cmd.Process.Pid)
}
