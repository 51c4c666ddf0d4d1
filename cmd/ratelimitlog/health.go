package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

type healthCmd struct {
	URL     string        `arg:"" optional:"" help:"Where the server is, like https://limits.example; without a path /readyz is asked. Without a URL it is http:// and --addr."`
	Addr    string        `default:"127.0.0.1:8080" help:"Where serve listens, as there."`
	Timeout time.Duration `default:"3s" help:"How long the answer may take."`
}

// Run asks as a load balancer would. It opens no database.
func (c *healthCmd) Run(console *console) error {
	at, err := c.target()
	if err != nil {
		return err
	}
	if c.Timeout <= 0 {
		return &domain.InvalidError{Field: "timeout", Reason: fmt.Sprintf("is %s, it must be more than 0", c.Timeout)}
	}
	ctx, cancel := context.WithTimeout(console.ctx, c.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return &domain.InvalidError{Field: "url", Reason: fmt.Sprintf("is %q, which cannot be asked", at)}
	}
	// No proxy, and no redirect: what answers shall be the server itself.
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("not ready: %w", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	switch {
	case err != nil:
		return fmt.Errorf("not ready: %s: %w", at, err)
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("not ready: %s answers %s: %q", at, response.Status, body)
	}
	if !json.Valid(body) { // of another program's page nothing is handed on
		body = []byte(`{"status":"ready"}`)
	}
	return console.print(json.RawMessage(body), "ready: %s\n", at)
}

// target is the URL to ask.
func (c *healthCmd) target() (string, error) {
	text := c.URL
	if text == "" {
		text = "http://" + c.Addr
	}
	at, err := url.Parse(text)
	if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" {
		return "", &domain.InvalidError{Field: "url", Reason: fmt.Sprintf("is %q, it must be like http://127.0.0.1:8080", text)}
	}
	if strings.Trim(at.Path, "/") == "" {
		at.Path = "/readyz"
	}
	return at.String(), nil
}
