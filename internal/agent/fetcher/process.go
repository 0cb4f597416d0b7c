//go:build linux

package fetcher

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/cache"
	"github.com/muster-dev/muster/internal/door/visitor"
	"github.com/muster-dev/muster/internal/landlock"
)

// Kind is a kind of trees.
type Kind string

const (
	// Code are snapshots of code, by their digests.
	Code Kind = "code"
	// Environments are Python environments, by "sha256:" and their keys.
	Environments Kind = "environments"
	// parts is the folder of the cache of data, among the folders of the process.
	parts Kind = "data"
)

// The files that the process is started with.
const (
	fdRequests = 3 + iota // the listening socket at which the agent asks
	fdSockets             // the folder of sockets
	fdLife                // a pipe that ends with the agent
	fdFolders             // the folders, one after the other
)

// workers is the number of cores that unpack data, beside the work that the node is for.
const workers = 4

// bootFile is the file in /proc by which [cache.Open] knows the boot of the machine.
const bootFile = "/proc/sys/kernel/random/boot_id"

// Main is the process. It serves the agent that started it until the agent ends, and
// returns the exit code: 0, 1 if it cannot serve, 2 if a user calls it.
func Main(ctx context.Context, args []string, stderr io.Writer) int {
	flags := flag.NewFlagSet("fetch", flag.ContinueOnError)
	flags.SetOutput(stderr)
	limit := flags.Int64("limit", 0, "the bytes that the cache of data may have")
	folders := flags.String("folders", "", "the kinds of the folders that are open, separated by commas")
	if flags.Parse(args) != nil || *folders == "" {
		_, _ = fmt.Fprintln(stderr, "muster: the agent of a node starts this program; users cannot")
		return 2
	}
	if err := serve(ctx, strings.Split(*folders, ","), *limit, stderr); err != nil {
		_, _ = fmt.Fprintln(stderr, "muster: fetching for the agent:", err)
		return 1
	}
	return 0
}

// processes bounds the processes and threads of the user on the machine, which may run several
// agents.
const processes = 1024

// serve gives up its rights and serves.
func serve(ctx context.Context, kinds []string, limit int64, stderr io.Writer) error {
	if err := unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: processes, Max: processes}); err != nil {
		return fmt.Errorf("bounding the processes: %w", err)
	}
	at := map[Kind]string{}
	var rules []landlock.Rule
	for i, kind := range kinds {
		folder := os.NewFile(uintptr(fdFolders+i), kind)
		defer func() { _ = folder.Close() }()
		at[Kind(kind)] = fmt.Sprintf("/proc/self/fd/%d", fdFolders+i)
		rules = append(rules, landlock.Rule{Below: folder, Access: landlock.Read | landlock.Change})
	}
	if boot, err := os.Open(bootFile); err == nil {
		rules = append(rules, landlock.Rule{Below: boot, Access: landlock.Read})
		defer func() { _ = boot.Close() }()
	}
	err := landlock.Restrict(rules...)
	if errors.Is(err, landlock.ErrUnavailable) {
		_, _ = fmt.Fprintln(stderr, "muster: the fetcher has the rights of its user alone, without a restriction to its folders:", err)
	} else if err != nil {
		return err
	}
	w, err := newWork(at, limit)
	if err != nil {
		return err
	}
	listener, err := net.FileListener(os.NewFile(fdRequests, "requests"))
	if err != nil {
		return fmt.Errorf("listening for the agent: %w", err)
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	go func() { // ends with the agent, and so does this process
		defer end()
		_, _ = io.Copy(io.Discard, os.NewFile(fdLife, "agent"))
	}()
	server := &http.Server{Handler: w.handler(), ReadHeaderTimeout: 10 * time.Second, BaseContext: func(net.Listener) context.Context { return ctx }}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); ctx.Err() == nil {
		return fmt.Errorf("answering the agent: %w", err)
	}
	return nil
}

// newWork opens the cache and the way to the agent.
func newWork(at map[Kind]string, limit int64) (*work, error) {
	agent := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d/%s", fdSockets, agentSocket))
			if err != nil && ctx.Err() == nil { // a missing socket is not missing data
				return nil, errors.New("reaching the agent: " + err.Error())
			}
			return conn, err
		},
		MaxIdleConnsPerHost: 16, IdleConnTimeout: time.Minute, ResponseHeaderTimeout: time.Minute,
	}
	pods, ahead := visitor.Behind(agent, prefixPods), visitor.Behind(agent, prefixAhead)
	w := &work{trees: at, fetch: func(ctx context.Context, r treeRequest, dst string) error {
		if r.Kind == Environments {
			return pods.FetchEnvironment(ctx, r.Namespace, strings.TrimPrefix(r.Digest, "sha256:"), dst)
		}
		return pods.Fetch(ctx, r.Namespace, r.Digest, dst)
	}}
	dir, has := at[parts]
	delete(w.trees, parts)
	if !has {
		return w, nil
	}
	local, err := NewLocal(cache.Options{
		Dir: dir, Limit: limit, Guarded: true, // pods are shown read-only mounts
		InUse: func(ctx context.Context) (map[string]bool, error) { return inUse(ctx, agent) },
	}, func(ctx context.Context, p Part) (*data.Store, error) {
		door := pods
		if p.Ahead {
			door = ahead
		}
		return data.Open(ctx, data.Options{Backend: door.Data(p.Namespace), Workers: workers})
	})
	w.local = local
	return w, err
}

// inUse asks the agent which entries volumes name.
func inUse(ctx context.Context, agent http.RoundTripper) (map[string]bool, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://agent"+pathInUse, nil)
	if err != nil {
		return nil, err
	}
	got, err := agent.RoundTrip(request)
	if err != nil {
		return nil, fmt.Errorf("asking the agent which data is in use: %w", err)
	}
	defer func() { _ = got.Body.Close() }()
	keys := map[string]bool{}
	if got.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("asking the agent which data is in use: it answers %s", got.Status)
	}
	if err := json.NewDecoder(got.Body).Decode(&keys); err != nil {
		return nil, fmt.Errorf("asking the agent which data is in use: %w", err)
	}
	return keys, nil
}
