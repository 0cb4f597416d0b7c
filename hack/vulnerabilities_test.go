package hack

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// TestVulnerabilities: a vulnerability fails a run; a database that is away does not.
func TestVulnerabilities(t *testing.T) {
	for _, c := range []struct {
		name string
		// first and second are the exit codes of govulncheck for packages and for functions.
		first, second string
		// answers is the number of answers of the database; after them it is away.
		answers int32
		fails   bool
		says    string
	}{
		{"no database", "0", "0", 0, false, "not looked for: http://"},
		{"no package is vulnerable", "0", "9", 9, false, "none in the called functions (database of 2026-11-20T00:00:00Z)"},
		{"no function is called", "3", "0", 9, false, "none in the called functions"},
		{"a function is called", "3", "3", 9, true, "found by symbol of ./cmd/... with nvml"},
		{"the database goes away", "1", "9", 1, false, "not looked for: http://"},
		{"the database goes away later", "3", "1", 1, false, "not looked for: http://"},
		{"the packages cannot be read", "1", "9", 9, true, "found by package"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var asked atomic.Int32
			database := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/index/db.json" || asked.Add(1) > c.answers {
					w.WriteHeader(http.StatusServiceUnavailable)
					return
				}
				_, _ = w.Write([]byte(`{"modified":"2026-11-20T00:00:00Z"}`))
			}))
			defer database.Close()
			dir := t.TempDir()
			script, err := os.ReadFile("vulnerabilities")
			if err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir, "hack/vulnerabilities"), string(script), 0o755)
			tool := filepath.Join(dir, "govulncheck")
			// -db DATABASE -scan SCAN -tags TAGS PACKAGES
			write(t, tool, "#!/bin/sh\necho \"found by $4 of $7 with $6\"\n[ $4 = package ] && exit "+c.first+"\nexit "+c.second+"\n", 0o755)
			out, said, err := run(t, dir, []string{"GOVULNDB=" + database.URL, "GOVULNCHECK=" + tool, "no_proxy=*"}, "hack/vulnerabilities", "nvml")
			if (err != nil) != c.fails || !strings.Contains(out, c.says) {
				t.Errorf("%v, want %q in\n%s\n%s", err, c.says, out, said)
			}
			if !c.fails && strings.Contains(out, "found by") {
				t.Errorf("a run that succeeds says\n%s", out)
			}
		})
	}
}
