// Command deviceplugin offers a kubelet pretend GPUs through the device plugin
// API, v1beta1, as a vendor's plugin offers real ones: the kubelet counts them,
// picks, and refuses what is over; a container sees in a variable of its
// environment which ones it was given.
//
// A device is named GPU-<host name>-<number from 0>. Those whose names stand
// in the file --unhealthy, one a line, are reported broken; the file is read
// anew on SIGHUP.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

func main() {
	p := plugin{}
	flag.StringVar(&p.folder, "folder", api.DevicePluginPath, "where the kubelet listens and looks for sockets of plugins")
	flag.StringVar(&p.resource, "resource", "nvidia.com/gpu", "the extended resource that is offered")
	flag.StringVar(&p.variable, "variable", "NVIDIA_VISIBLE_DEVICES", "the variable that tells a container its devices, separated by commas")
	flag.StringVar(&p.unhealthy, "unhealthy", "", "file with the names of devices that are broken; none if it is missing")
	count := flag.Int("count", 1, "how many devices there are")
	flag.Parse()
	host, err := os.Hostname()
	if err != nil {
		fatal(err)
	}
	for i := range *count {
		p.ids = append(p.ids, fmt.Sprintf("GPU-%s-%d", host, i))
	}
	p.hup = make(chan os.Signal, 1)
	signal.Notify(p.hup, unix.SIGHUP)
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT)
	defer stop()
	// A kubelet that starts removes the sockets of plugins: each is served
	// anew.
	for ctx.Err() == nil {
		if err := p.serve(ctx); err != nil {
			fatal(err)
		}
	}
}

func (p *plugin) socket() string {
	return strings.ReplaceAll(p.resource, "/", "_") + ".sock"
}

func (p *plugin) kubelet() string { return filepath.Join(p.folder, filepath.Base(api.KubeletSocket)) }

func fatal(err error) {
	fmt.Fprintln(os.Stderr, "deviceplugin:", err)
	os.Exit(1)
}
