package connection

import (
	"os"
	"path/filepath"
	"testing"
)

// TestDataFolder: it is that of an embedded Muster also where its kubeconfig names it.
func TestDataFolder(t *testing.T) {
	embedded, cluster, own := t.TempDir(), t.TempDir(), t.TempDir()
	for _, file := range []string{filepath.Join(embedded, "kubeconfig"), filepath.Join(embedded, "control-plane.json"), filepath.Join(cluster, "kubeconfig")} {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct{ flag, variable, want string }{
		"nothing is there":             {"", "", own},
		"an embedded one, by flag":     {embedded, "", embedded},
		"an embedded one, by variable": {"", embedded, embedded},
		"a cluster, by flag":           {cluster, "", own},
		"a cluster, by variable":       {"", cluster, own},
	} {
		t.Run(name, func(t *testing.T) {
			set := map[string]string{EnvHome: own}
			if c.variable != "" {
				set[EnvKubeconfig] = filepath.Join(c.variable, "kubeconfig")
			}
			f := &Factory{Getenv: func(name string) string { return set[name] }}
			if c.flag != "" {
				f.kubeconfig = filepath.Join(c.flag, "kubeconfig")
			}
			if got, err := f.DataFolder(); err != nil || got != c.want {
				t.Errorf("%s, %v, want %s", got, err, c.want)
			}
		})
	}
}
