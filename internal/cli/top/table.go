package top

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/muster-dev/muster/internal/cli/device"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

// write prints the report as two tables.
func (r Report) write(out io.Writer, style terminal.Style, now time.Time) error {
	nodes := terminal.NewTable("NODE", "STATE", "CPUS", "MEMORY", "GPUS", "PODS")
	devices := terminal.NewTable("NODE", "GPU", "MODEL", "BUSY", "MEMORY", "HELD BY", "SINCE")
	var notes []string
	for _, node := range r.Nodes {
		held := 0
		for _, gpu := range node.GPUs {
			if gpu.Holder != nil || len(gpu.Sharers) > 0 || len(gpu.Foreign) > 0 {
				held++
			}
			gpu.rows(devices, node.Name, now)
		}
		for _, gone := range node.GoneGPUs {
			devices.Row(node.Name, "gone", "", "", "", gone.Holder.String()+"; no longer there: "+gone.UUID, since(gone.Holder, now)).Paint(5, terminal.Red)
		}
		state, colour := "Ready", terminal.Green
		if !node.Ready {
			state, colour = "NotReady", terminal.Red
		}
		nodes.Row(node.Name, state, fmt.Sprintf("%.4g of %.4g", node.CPUsRequested, node.CPUs),
			terminal.Size64(node.MemoryRequested)+" of "+terminal.Size64(node.Memory), fmt.Sprintf("%d of %d", held, len(node.GPUs)), fmt.Sprint(node.Pods)).
			Paint(1, colour)
		for _, stray := range node.Quarantined {
			notes = append(notes, fmt.Sprintf("%s: left running, unknown to this Muster: %s", node.Name, stray))
		}
	}
	if nodes.Len() == 0 {
		_, err := fmt.Fprintln(out, "There are no nodes yet.")
		return err
	}
	if err := nodes.Write(out, style, ""); err != nil {
		return err
	}
	if devices.Len() > 0 {
		_, _ = fmt.Fprintln(out)
		if err := devices.Write(out, style, ""); err != nil {
			return err
		}
	}
	for _, note := range notes {
		if _, err := fmt.Fprintln(out, style.Paint(terminal.Yellow, note)); err != nil {
			return err
		}
	}
	return nil
}

// since is how long a holder has been holding.
func since(holder device.Holder, now time.Time) string {
	return terminal.WholeSpan(now.Sub(holder.Since))
}

// colourOf is green for Muster's allocations, yellow for claims of others.
func colourOf(holder device.Holder) terminal.Colour {
	if holder.Claim != "" {
		return terminal.Yellow
	}
	return terminal.Green
}

// rows adds a GPU's line, and one for each further holder.
func (g GPU) rows(table *terminal.Table, node string, now time.Time) {
	model := g.Model
	if g.Simulated {
		model += " (simulated)"
	}
	busy, memory := "", terminal.Size64(g.MemoryMiB<<20)
	if g.Utilization != nil {
		busy = fmt.Sprintf("%d%%", *g.Utilization)
	}
	if g.MemoryUsedMiB != nil {
		memory = terminal.Size64(*g.MemoryUsedMiB<<20) + " of " + memory
	}
	first := true
	add := func(holder, since string, colour terminal.Colour) {
		if first {
			table.Row(node, fmt.Sprint(g.Index), model, busy, memory, holder, since)
		} else {
			table.Row("", "", "", "", "", holder, since)
		}
		first = false
		table.Paint(5, colour)
	}
	if g.Holder != nil {
		holder := g.Holder.String()
		if g.Holder.Done != "" {
			holder += ", " + g.Holder.Done + " done"
		}
		add(holder, since(*g.Holder, now), colourOf(*g.Holder))
	}
	for _, sharer := range g.Sharers {
		text := sharer.String()
		if sharer.Share != nil {
			text += " (" + sharer.ShareText() + ")"
		}
		add(text, since(sharer, now), colourOf(sharer))
	}
	for _, process := range g.Foreign {
		words := []string{fmt.Sprintf("process %d", process.PID)}
		if process.User != "" {
			words = append(words, "of "+process.User)
		}
		if process.Command != "" {
			command := []rune(process.Command)
			if len(command) > 40 {
				command = append(command[:39], '…')
			}
			words = append(words, "("+string(command)+")")
		}
		add(strings.Join(words, " ")+", not Muster's", "", terminal.Yellow)
	}
	if g.Unhealthy != "" {
		add("not given out: "+g.Unhealthy, "", terminal.Red)
	}
	if first {
		add("free", "", terminal.Dim)
	}
}
