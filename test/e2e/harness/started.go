package harness

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Started is a process of this machine, in whatever namespaces, as /proc has it:
// whether Muster still knows of it plays no part.
type Started struct {
	PID int
	// Command and Environment (NAME=value) are what it was started with.
	Command, Environment []string
}

// String is the process in one line, with what it was started for.
func (p Started) String() string {
	return fmt.Sprintf("pid %d (%s) %s", p.PID, p.Variable("MUSTER_CONTAINER_ID"), strings.Join(p.Command, " "))
}

// Variable is the value of a variable of its environment; empty if it has none.
func (p Started) Variable(name string) string {
	for _, variable := range p.Environment {
		if value, ok := strings.CutPrefix(variable, name+"="); ok {
			return value
		}
	}
	return ""
}

// AllStarted returns the processes of this machine that choice takes. Zombies,
// and what ends meanwhile, have no environment, and are none.
func AllStarted(choice func(Started) bool) []Started {
	folders, _ := filepath.Glob("/proc/[0-9]*")
	var found []Started
	for _, folder := range folders {
		p := Started{Command: variables(folder + "/cmdline"), Environment: variables(folder + "/environ")}
		p.PID, _ = strconv.Atoi(filepath.Base(folder))
		if p.Environment != nil && choice(p) {
			found = append(found, p)
		}
	}
	return found
}

// NoObjects returns an error if a namespace has objects of these kinds.
func NoObjects(ctx context.Context, server client.Reader, namespace string, kinds ...client.ObjectList) error {
	for _, list := range kinds {
		if err := server.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return err
		}
		if text := fmt.Sprintf("%+v", list); strings.Contains(text, "UID:") {
			return fmt.Errorf("objects are left: %.2000s", text)
		}
	}
	return nil
}
