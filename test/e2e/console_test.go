//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-dev/muster/test/e2e/harness"
)

// TestConsole asks the console of a running Muster: by a token, which survives kill -9, and by a link of a
// console that a kubeconfig of the same Muster serves, as on a laptop.
func TestConsole(t *testing.T) {
	home, port := t.TempDir(), freePort(t)
	config := fmt.Sprintf("apiVersion: config.muster.dev/v1alpha1\nkind: Embedded\nconsole: {port: %d}\n", port)
	if err := os.WriteFile(filepath.Join(home, "config.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := harness.Up(t.Context(), home, "--tier", "plain", "--simulate-gpus", "2xA100")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*time.Minute)
		defer cancel()
		if err := m.Down(ctx); err != nil {
			t.Error(err)
		}
	})
	ctx := deadline(t, 3*time.Minute)
	var token struct{ ID, Token string }
	made := m.Run(ctx, "token", "create", "--for", "nightly", "--scope", "read", "--expires", "1d", "-o", "json")
	expect(t, made, 0)
	if err := json.Unmarshal([]byte(made.Stdout), &token); err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("http://localhost:%d", port)
	if status, text := bearer(t, address+"/api/gpus", token.Token); status != http.StatusOK || strings.Count(text, `"A100"`) != 2 {
		t.Errorf("the GPUs: %d %s", status, text)
	}
	if printed := m.Run(ctx, "console", "--print"); !strings.HasPrefix(printed.Stdout, address+"/.muster/enter#muster-link.") {
		t.Errorf("the link is %+v", printed)
	}
	m.Kill9(t)
	if gone := m.Run(ctx, "console", "--print"); gone.Code != 3 {
		t.Errorf("without Muster: %+v", gone)
	}
	if err := m.Start(ctx); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, time.Minute, "the console after kill -9", func() error {
		if status, text := bearer(t, address+"/api/me", token.Token); status != http.StatusOK || !strings.Contains(text, `"muster-admin"`) {
			return fmt.Errorf("%d %s", status, text)
		}
		return nil
	})
	expect(t, m.Run(ctx, "token", "revoke", token.ID), 0)
	if status, _ := bearer(t, address+"/api/me", token.Token); status != http.StatusUnauthorized {
		t.Errorf("the revoked token has the status %d", status)
	}
	laptop(t, m)
}

// laptop serves the console with a kubeconfig that lies elsewhere, and reads the GPUs by its link.
func laptop(t *testing.T, m *harness.Muster) {
	t.Helper()
	text, err := os.ReadFile(m.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "cluster.kubeconfig")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := m.Command(deadline(t, time.Minute), "console", "--kubeconfig", file, "--port", fmt.Sprint(freePort(t)))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	link, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	base, secret, _ := strings.Cut(strings.TrimSpace(link), "/.muster/enter#")
	jar := &http.Client{}
	var opened struct{ User, Key string }
	var cookies []*http.Cookie
	for range 2 {
		answer, text := send(t, jar, base, "POST", "/.muster/enter/link", fmt.Sprintf(`{"link":%q,"user":%q}`, secret, opened.User), "", nil)
		if err := json.Unmarshal([]byte(text), &opened); err != nil {
			t.Fatalf("%s: %s", answer.Status, text)
		}
		cookies = answer.Cookies()
	}
	if answer, text := send(t, jar, base, "GET", "/api/gpus", "", opened.Key, cookies); answer.StatusCode != http.StatusOK || strings.Count(text, `"A100"`) != 2 {
		t.Errorf("the GPUs on a laptop: %s %s", answer.Status, text)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, out); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 130 {
		t.Errorf("^C ends the command with %v", err)
	}
}

func send(t *testing.T, via *http.Client, base, method, path, body, key string, cookies []*http.Cookie) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, base+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Origin", base)
	r.Header.Set("X-Muster-Key", key)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, c := range cookies {
		if c.MaxAge >= 0 {
			r.AddCookie(&http.Cookie{Name: c.Name, Value: c.Value})
		}
	}
	answer, err := via.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(answer.Body)
	if closed := answer.Body.Close(); err != nil || closed != nil {
		t.Fatal(err, closed)
	}
	return answer, string(text)
}

// bearer asks with a token. Without an answer the status is 0.
func bearer(t *testing.T, address, token string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	text, err := io.ReadAll(answer.Body)
	if closed := answer.Body.Close(); err != nil || closed != nil {
		t.Fatal(err, closed)
	}
	return answer.StatusCode, string(text)
}
