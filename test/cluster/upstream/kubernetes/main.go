// Command kubernetes is all of Kubernetes and etcd in one program, unpatched:
// the first argument, or the name it is called by, says which. One program is
// linked once and lies in memory once, however many nodes run it.
//
// It is a module of its own, so that the project's own dependencies do not
// grow by what only a whole cluster needs.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// programs holds what can be run, by name; each gets its command line with its
// name in front and returns how the process ends.
var programs = map[string]func(line []string) int{
	"etcd": func(line []string) int {
		etcdmain.Main(line)
		return 0
	},
	"kube-apiserver":          func([]string) int { return cli.Run(apiserver.NewAPIServerCommand()) },
	"kube-controller-manager": func([]string) int { return cli.Run(controllers.NewControllerManagerCommand()) },
	"kube-proxy":              func([]string) int { return cli.Run(proxy.NewProxyCommand()) },
	"kube-scheduler":          func([]string) int { return cli.Run(scheduler.NewSchedulerCommand()) },
	"kubelet":                 func([]string) int { return cli.Run(kubelet.NewKubeletCommand(context.Background())) },
}

func main() {
	line := os.Args
	if _, named := programs[filepath.Base(line[0])]; !named && len(line) > 1 {
		line = line[1:]
	}
	run, known := programs[filepath.Base(line[0])]
	if !known {
		fmt.Fprintf(os.Stderr, "kubernetes: %q is none of %s\n", line[0], strings.Join(names(), ", "))
		os.Exit(2)
	}
	// The commands read os.Args themselves.
	os.Args = line
	os.Exit(run(line))
}

func names() []string {
	all := make([]string, 0, len(programs))
	for name := range programs {
		all = append(all, name)
	}
	sort.Strings(all)
	return all
}
