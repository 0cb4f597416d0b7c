package upstream

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"

	"github.com/muster-dev/muster/internal/controlplane/collector"
	"github.com/muster-dev/muster/internal/controlplane/contract"
)

// stopPatience bounds an orderly stop of the controllers and the API server;
// etcd is closed in any case.
const stopPatience = 8 * time.Second

// RunChild is the body of the hidden verb: it runs what the order on standard
// input asks for, until it is told to stop there or ctx ends. When standard
// input ends without that, its supervisor is dead, and it ends the process.
// args are the verb's arguments; it takes none. It may be called once in a
// process, which must end soon after it returns.
func RunChild(ctx context.Context, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%s takes no arguments, got %q: it is started by muster itself", contract.Verb, args)
	}
	stdin := bufio.NewReader(os.Stdin)
	order, err := readOrder(stdin)
	if err != nil {
		return err
	}
	syscall.CloseOnExec(contract.ListenerFD)
	syscall.CloseOnExec(contract.ReportFD)
	syscall.CloseOnExec(contract.LockFD)
	reports := &reporter{to: os.NewFile(contract.ReportFD, "reports")}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() { // Ends with the process: a read cannot be interrupted.
		if !toldToStop(stdin) {
			// The next supervisor waits for the data and the port. What was
			// acknowledged is on disk; an orderly stop would only take longer.
			klog.InfoS("The supervisor is gone; ending at once")
			klog.Flush()
			os.Exit(1)
		}
		stop()
	}()
	collector.Start()
	watcher := watchLog(ctx, order.Log)
	defer watcher.Wait()
	defer stop()
	return run(ctx, order, reports)
}

func readOrder(from *bufio.Reader) (contract.Order, error) {
	var order contract.Order
	line, err := from.ReadBytes('\n')
	if err != nil {
		return order, fmt.Errorf("reading the order from standard input: %w: %s is started by muster itself, not by hand", err, contract.Verb)
	}
	if err := json.Unmarshal(line, &order); err != nil {
		return order, fmt.Errorf("decoding the order from standard input: %w", err)
	}
	return order, nil
}

// toldToStop waits until the supervisor says that the child is to stop in
// order, or is gone without having said so.
func toldToStop(from *bufio.Reader) bool {
	for {
		line, err := from.ReadString('\n')
		if strings.TrimSpace(line) == contract.Stop {
			return true
		}
		if err != nil {
			return false
		}
	}
}

// run is a procedure: 1. etcd is started, 2. the API server is put together
// meanwhile, 3. it serves, 4. once it is ready the controllers start, 5. at the
// end everything stops in the opposite order.
func run(ctx context.Context, order contract.Order, reports *reporter) error {
	defer klog.Flush()
	listener, err := net.FileListener(os.NewFile(contract.ListenerFD, "listener"))
	if err != nil {
		return reports.fail(contract.StageAPIServer, fmt.Errorf("taking over the API server's socket: %w", err))
	}
	reports.reached(contract.StageEtcd)
	store, err := startEtcd(order, reports)
	if err != nil {
		return reports.fail(contract.StageEtcd, err)
	}
	defer store.Close()

	serverCtx, stopServer := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServer()
	group, controllerCtx := errgroup.WithContext(ctx)
	ready := make(chan struct{})
	group.Go(func() error {
		// The server goes on until the controllers have said goodbye.
		err := serveAPI(serverCtx, order, listener, func() { close(ready) })
		if err == nil && serverCtx.Err() == nil {
			err = errors.New("kube-apiserver ended by itself")
		}
		return reports.fail(contract.StageAPIServer, err)
	})
	group.Go(func() error {
		defer stopServer()
		select {
		case <-store.Server.ReadyNotify():
			reports.reached(contract.StageAPIServer)
		case err := <-store.Err():
			return reports.fail(contract.StageEtcd, err)
		case <-controllerCtx.Done():
			return nil
		}
		select {
		case <-ready:
			reports.reached(contract.StageControllers)
		case <-controllerCtx.Done():
			return nil
		}
		group.Go(func() error {
			collector.Tend(controllerCtx, settled)
			return nil
		})
		if order.Bare {
			<-controllerCtx.Done()
			return nil
		}
		return reports.fail(contract.StageControllers, runControllers(controllerCtx, order))
	})
	return settle(controllerCtx, group)
}

// settle waits for the group, but after the context's end only so long.
func settle(ctx context.Context, group *errgroup.Group) error {
	ended := make(chan error, 1)
	go func() { ended <- group.Wait() }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-ended:
		return err
	case <-time.After(stopPatience):
		klog.InfoS("Stopping took too long; closing etcd under the running servers", "patience", stopPatience)
		return nil
	}
}

// settled is how long after readiness the controllers have filled their caches,
// too.
const settled = 2 * time.Second

// reporter writes reports to the supervisor.
type reporter struct {
	mu sync.Mutex
	to io.Writer
}

func (r *reporter) send(report contract.Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// The supervisor may be gone; then so is the reader.
	_ = json.NewEncoder(r.to).Encode(report)
}

func (r *reporter) reached(stage contract.Stage) { r.send(contract.Report{Stage: stage}) }

// fail reports err, if there is one, and returns it with its stage.
func (r *reporter) fail(stage contract.Stage, err error) error {
	if err == nil {
		return nil
	}
	r.send(contract.Report{Stage: stage, Error: err.Error()})
	return fmt.Errorf("running %s: %w", stage, err)
}
