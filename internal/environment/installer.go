//go:build linux

package environment

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"
)

// progressEvery is how often the number of installed packages is looked at.
const progressEvery = 500 * time.Millisecond

// pipProgress makes sense of what the installer says as it goes.
type pipProgress struct {
	tell      func(message string, done, total int)
	installed func() int

	mu        sync.Mutex
	collected int
	total     int
	before    int
}

var (
	collecting  = regexp.MustCompile(`^Collecting (\S+)`)
	downloading = regexp.MustCompile(`^\s+Downloading (\S+)(?: \(([^)]*)\))?`)
	building    = regexp.MustCompile(`^\s*Building wheels? for collected packages: (.*)`)
	installing  = regexp.MustCompile(`^Installing collected packages: (.*)`)
)

// line takes in one line of the installer's.
func (p *pipProgress) line(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m := collecting.FindStringSubmatch(text); m != nil {
		p.collected++
		p.tell(fmt.Sprintf("resolving requirements: %s (%d packages so far)", Mask(m[1]), p.collected), 0, 0)
	} else if m := downloading.FindStringSubmatch(text); m != nil {
		size := ""
		if m[2] != "" {
			size = " (" + m[2] + ")"
		}
		p.tell("downloading "+filepath.Base(Mask(m[1]))+size, 0, 0)
	} else if m := building.FindStringSubmatch(text); m != nil {
		p.tell("compiling "+m[1], 0, 0)
	} else if m := installing.FindStringSubmatch(text); m != nil {
		p.total = len(strings.Split(m[1], ","))
		p.before = p.installed()
		p.tell(fmt.Sprintf("installing %d packages", p.total), 0, p.total)
	}
}

// start counts packages as they arrive, about which the installer is silent;
// call the result to stop.
func (p *pipProgress) start(ctx context.Context) func() {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		ticker := time.NewTicker(progressEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				p.count()
			}
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}

func (p *pipProgress) count() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.total == 0 {
		return
	}
	done := min(max(p.installed()-p.before, 0), p.total)
	p.tell(fmt.Sprintf("installing packages: %d of %d", done, p.total), done, p.total)
}

// countInstalled counts the packages in a virtual environment.
func countInstalled(venv string) int {
	found, err := filepath.Glob(filepath.Join(venv, "lib", "python3*", "site-packages", "*.dist-info"))
	if err != nil {
		return 0
	}
	return len(found)
}

// pipWords keeps what the installer says about a failure.
type pipWords struct {
	last    []string
	trouble []string
	telling bool
}

const (
	// keepLast lines are kept in case the installer never says "ERROR".
	keepLast = 8
	// keepTrouble bounds the lines of an explanation, keepBytes its size: it
	// ends up in an API object.
	keepTrouble = 14
	keepBytes   = 2000
)

// line takes in one line of the installer's.
func (w *pipWords) line(text string) {
	text = strings.TrimRight(text, " ")
	if text == "" {
		return
	}
	w.last = append(w.last, text)
	if len(w.last) > keepLast {
		w.last = w.last[1:]
	}
	plain := strings.TrimSpace(text)
	if strings.HasPrefix(plain, "ERROR:") || strings.HasPrefix(plain, "error:") || strings.HasPrefix(plain, "The conflict is caused by:") || strings.HasPrefix(plain, "ERROR: Cannot install") {
		w.telling = true
	}
	// Advice about where to read on means little in a status.
	if strings.HasPrefix(plain, "[notice]") || strings.HasPrefix(plain, "WARNING:") || strings.HasPrefix(plain, "note:") || strings.HasPrefix(plain, "hint:") {
		return
	}
	if w.telling && len(w.trouble) < keepTrouble {
		w.trouble = append(w.trouble, plain)
	}
}

// explain puts the failure into the installer's own words.
func (w *pipWords) explain(err error) string {
	lines := w.trouble
	if len(lines) == 0 {
		lines = w.last
	}
	text := Mask(strings.Join(lines, "\n"))
	if text == "" {
		return err.Error()
	}
	return brief(text)
}

// brief cuts a text to a size that fits into an API object.
func brief(text string) string {
	if len(text) > keepBytes {
		return strings.ToValidUTF8(text[:keepBytes], "") + "..."
	}
	return text
}

// venvError says what to do where this Python cannot make environments.
func venvError(err error, words *pipWords, python interpreter) error {
	text := words.explain(err)
	short := python.Version
	if parts := strings.SplitN(short, ".", 3); len(parts) == 3 {
		short = parts[0] + "." + parts[1]
	}
	all := strings.Join(words.last, "\n")
	if strings.Contains(all, "ensurepip") || strings.Contains(all, "No module named venv") {
		return fmt.Errorf("making a virtual environment: the Python at %s lacks its venv module; install it, for example with: apt install python%s-venv", python.Executable, short)
	}
	return fmt.Errorf("making a virtual environment with %s: %s", python.Executable, text)
}
