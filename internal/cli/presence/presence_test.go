package presence

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

const (
	leasePath = "/apis/coordination.k8s.io/v1/namespaces/muster-system/leases/muster-scheduler-epoch"
	kindsPath = "/apis/muster.dev/v1alpha1"
)

// noon is the clock of the server, which is not that of this machine.
var noon = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

func lease(holder string, age time.Duration) string {
	return fmt.Sprintf(`{"spec": {"holderIdentity": %q, "leaseDurationSeconds": 15, "renewTime": %q}}`, holder, noon.Add(-age).Format("2006-01-02T15:04:05.000000Z"))
}

func TestLook(t *testing.T) {
	for name, c := range map[string]struct {
		lease, kinds int
		body         string
		absent       bool
		warns        string
		asked        int
	}{
		"a manager leads":           {lease: 200, body: lease("one", 4*time.Second), asked: 1},
		"it is slow":                {lease: 200, body: lease("one", 29*time.Second), asked: 1},
		"it is gone":                {lease: 200, body: lease("one", 2*time.Hour), warns: "has run on this cluster for 2h", asked: 1},
		"it has just handed over":   {lease: 200, body: lease("", 2*time.Second), asked: 1},
		"it has ended":              {lease: 200, body: lease("", 10*time.Second), warns: "has run on this cluster for 10.0 s", asked: 1},
		"none has ever run":         {lease: 404, kinds: 200, warns: "has run on this cluster yet", asked: 2},
		"not installed":             {lease: 404, kinds: 404, absent: true, asked: 2},
		"not installed, no rights":  {lease: 403, kinds: 404, absent: true, asked: 2},
		"installed, and no rights":  {lease: 403, kinds: 200, asked: 2},
		"a server that is not well": {lease: 500, asked: 1},
		"no lease at all":           {lease: 200, body: "{}", asked: 1},
		"no JSON":                   {lease: 200, body: "<html>", asked: 1},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked++
				w.Header().Set("Date", noon.Format(http.TimeFormat))
				switch r.URL.Path {
				case leasePath:
					w.WriteHeader(c.lease)
				case kindsPath:
					w.WriteHeader(c.kinds)
				default:
					t.Errorf("asked for %s", r.URL.Path)
				}
				_, _ = w.Write([]byte(c.body))
			}))
			defer server.Close()
			var errs bytes.Buffer
			streams := terminal.Streams{Err: &errs, NoColor: true}
			s := Look(t.Context(), factory(t, server.URL, streams))
			s.Warn(streams)
			if s.Absent != c.absent || asked != c.asked || (errs.Len() > 0) != (c.warns != "") || !strings.Contains(errs.String(), c.warns) {
				t.Errorf("%+v after %d questions: %q", s, asked, errs.String())
			}
		})
	}
}

// factory is one whose kubeconfig leads to a server.
func factory(t *testing.T, server string, streams terminal.Streams) *connection.Factory {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config")
	text := `{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: "` + server + `"}}], contexts: [{name: c, context: {cluster: c}}]}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f := connection.New(streams, "test")
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	f.AddFlags(flags)
	if err := flags.Set("kubeconfig", file); err != nil {
		t.Fatal(err)
	}
	return f
}
