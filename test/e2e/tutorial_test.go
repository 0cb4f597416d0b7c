//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/muster-dev/muster/test/e2e/harness"
	"github.com/muster-dev/muster/test/e2e/tutorial"
)

// TestFirstHour takes every step of docs/tutorials/first-hour.md, in order, and
// compares the output of each command with the page.
func TestFirstHour(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(harness.Root(), "docs", "tutorials", "first-hour.md"))
	if err != nil {
		t.Fatal(err)
	}
	steps, err := tutorial.Parse(string(page))
	if err != nil {
		t.Fatal(err)
	}
	if len(steps) < 30 {
		t.Fatalf("%d steps found in the page, which has more", len(steps))
	}
	for _, x := range costly(plainTier) {
		t.Run(x.name, func(t *testing.T) { follow(t, x.name, steps) })
	}
}

// follow does the steps on a machine whose Muster has this tier.
func follow(t *testing.T, tier string, steps []tutorial.Step) {
	home := t.TempDir()
	m := &harness.Muster{Home: filepath.Join(home, ".muster")}
	t.Cleanup(m.Abandon)
	if err := os.Mkdir(m.Home, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, m.Home, "config.yaml", "apiVersion: config.muster.dev/v1alpha1\nkind: Embedded\ntier: "+tier+"\n")
	shell, err := tutorial.Start(deadline(t, 5*time.Minute), home, newcomer(t, home, m.Home))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := shell.Close(); err != nil {
			t.Errorf("the shell: %v", err)
		}
	}()
	shell.Looks, shell.Patience, shell.Passing = looking.MatchString, 15*time.Second, progress.MatchString
	for _, step := range steps {
		begun := time.Now()
		if err := shell.Do(step); err != nil {
			t.Fatalf("docs/tutorials/first-hour.md: %v", err)
		}
		if took := time.Since(begun); took > time.Second {
			t.Logf("line %d: %.1f s: %s", step.Line, took.Seconds(), step.Command)
		}
	}
	for _, p := range harness.Processes(m.Home) {
		t.Errorf("left running: %s", p)
	}
}

// looking matches the commands that show a state and change nothing.
var looking = regexp.MustCompile(`^muster (describe|get|status|top|why)\b`)

// progress matches the lines of commands that take longer than a second.
var progress = regexp.MustCompile(`^(Storing the code|Putting into \S+|Deleting \S+( jobs)?): `)

// newcomer is the environment of a person without any setting of Muster, whose PATH
// has the program that is tested.
func newcomer(t *testing.T, home, data string) []string {
	t.Helper()
	bin := t.TempDir()
	if err := os.Symlink(harness.Binary(), filepath.Join(bin, "muster")); err != nil {
		t.Fatal(err)
	}
	return []string{
		"HOME=" + home, "USER=ada", "LANG=C.UTF-8", "MUSTER_HOME=" + data,
		"PATH=" + bin + ":" + os.Getenv("PATH"),
	}
}
