//go:build chaos

package chaos

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// process is one as /proc has it.
type process struct {
	pid         int
	command     []string
	environment []string
}

func (p process) String() string {
	return fmt.Sprintf("pid %d %s", p.pid, strings.Join(p.command, " "))
}

func (p process) variable(name string) string {
	for _, variable := range p.environment {
		if value, ok := strings.CutPrefix(variable, name+"="); ok {
			return value
		}
	}
	return ""
}

// processes are those of this machine that the choice takes, whatever
// namespaces they are in. What ends meanwhile has nothing to read.
func processes(choice func(process) bool) []process {
	folders, _ := filepath.Glob("/proc/[0-9]*")
	var found []process
	for _, folder := range folders {
		environment, err := os.ReadFile(folder + "/environ")
		if err != nil {
			continue
		}
		command, _ := os.ReadFile(folder + "/cmdline")
		p := process{command: words(command), environment: words(environment)}
		p.pid, _ = strconv.Atoi(filepath.Base(folder))
		if choice(p) {
			found = append(found, p)
		}
	}
	return found
}

func words(text []byte) []string {
	return strings.Split(strings.TrimRight(string(text), "\x00"), "\x00")
}

// members are the processes of any gang of this run, by the name of their pod:
// each inherits the token, and its pod's name as the host name.
func members(token string) map[string][]process {
	out := map[string][]process{}
	for _, p := range processes(func(p process) bool { return slices.Contains(p.environment, token) }) {
		out[p.variable("HOSTNAME")] = append(out[p.variable("HOSTNAME")], p)
	}
	return out
}

// grantedTwice tells of the devices that processes of two pods were told to
// use.
func grantedTwice(members map[string][]process) []string {
	user := map[string]string{}
	var out []string
	for pod, all := range members {
		for _, p := range all {
			for device := range strings.SplitSeq(p.variable("NVIDIA_VISIBLE_DEVICES"), ",") {
				if other := user[device]; device != "" && other != "" && other != pod {
					out = append(out, fmt.Sprintf("%s is used by %s and by %s", device, other, pod))
				}
				user[device] = pod
			}
		}
	}
	return out
}

// managers are the processes of Muster's managers.
func managers() []process {
	return processes(func(p process) bool {
		return len(p.command) > 1 && filepath.Base(p.command[0]) == "muster" && p.command[1] == "serve" &&
			p.variable("KUBERNETES_SERVICE_HOST") != ""
	})
}
