// Command machine is the first process of a machine that a cluster pretends to
// have: process, mount, network, host name and IPC namespaces of their own.
// When it ends the kernel ends every process of the machine, and with the last
// one go the machine's mounts and links; so it ends when its standard input
// does, which is when the cluster, or the test that owned it, is gone.
//
// It mounts what the [wire.Setup] says, starts and signals programs, sets up
// links, and buries whatever ends. It knows nothing of Kubernetes.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/muster-dev/muster/test/cluster/wire"
)

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "machine:", err)
		os.Exit(1)
	}
}

func run(orders io.Reader, events io.Writer) error {
	if os.Getpid() != 1 || len(os.Args) != 2 {
		return errors.New("wants to be the first process of a PID namespace, with a setup in JSON as its argument: it is started by the package test/cluster")
	}
	var setup wire.Setup
	if err := json.Unmarshal([]byte(os.Args[1]), &setup); err != nil {
		return fmt.Errorf("reading the setup: %w", err)
	}
	if err := prepare(setup); err != nil {
		return err
	}
	programs := newPrograms(events)
	go programs.bury()
	programs.tell(wire.Event{})
	lines := bufio.NewScanner(orders)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var order wire.Order
		if err := json.Unmarshal(lines.Bytes(), &order); err != nil {
			return fmt.Errorf("reading an order: %w", err)
		}
		answer := wire.Event{Answer: order.ID}
		if err := obey(programs, order); err != nil {
			answer.Error = err.Error()
		}
		programs.tell(answer)
	}
	return lines.Err()
}

func obey(programs *programs, order wire.Order) error {
	switch {
	case order.Run != nil:
		return programs.start(*order.Run)
	case order.Kill != nil:
		return programs.signal(*order.Kill)
	case order.Link != nil:
		return setLink(*order.Link)
	case order.Bridge != nil:
		return makeBridge(*order.Bridge)
	}
	return errors.New("an order that asks for nothing known")
}
