package trace

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// What an openb file may say at most.
const (
	maxMilliCPU  = 1 << 30
	maxMemoryMiB = 1 << 26
	maxNodeGPUs  = 64
	maxRows      = 5_000_000
)

// OpenbNode is a node of an openb cluster.
type OpenbNode struct {
	Name                string
	MilliCPU, MemoryMiB int64
	GPUs                int
	// Model is the model of its GPUs; empty where it has none.
	Model string
}

// OpenbPod is a pod of an openb trace.
type OpenbPod struct {
	Name                string
	MilliCPU, MemoryMiB int64
	// GPUs is how many whole GPUs it takes, or 0 and Milli is how much of one
	// (1 to 999), or both are 0.
	GPUs  int
	Milli int64
	// Models are those that will do; empty means any.
	Models []string
}

// DemandMilli is what the pod takes of GPUs, in milli.
func (p *OpenbPod) DemandMilli() int64 { return int64(p.GPUs)*1000 + p.Milli }

// ReadOpenbNodes reads a list of nodes, CSV with the columns sn, cpu_milli,
// memory_mib, gpu (how many) and model. name is the file's name in messages.
func ReadOpenbNodes(name string, r io.Reader) ([]OpenbNode, error) {
	table, err := NewTable(name, r, []string{"sn", "cpu_milli", "memory_mib", "gpu", "model"}, nil)
	if err != nil {
		return nil, err
	}
	var nodes []OpenbNode
	known := map[string]int{}
	models := names{}
	err = eachRow(table, func() error {
		n := OpenbNode{Name: strings.Clone(table.Get(0)), Model: models.one(table.Get(4))}
		if first, ok := known[n.Name]; ok || n.Name == "" {
			if ok {
				return table.Wrong(0, fmt.Sprintf("a name of its own (row %d has the same)", first))
			}
			return table.Wrong(0, "a name")
		}
		known[n.Name] = table.Row()
		var gpus int64
		if err := integers(table, []field{{1, &n.MilliCPU, maxMilliCPU}, {2, &n.MemoryMiB, maxMemoryMiB}, {3, &gpus, maxNodeGPUs}}); err != nil {
			return err
		}
		n.GPUs = int(gpus)
		if n.GPUs > 0 && n.Model == "" {
			return table.Wrong(4, "the model of the node's GPUs")
		}
		nodes = append(nodes, n)
		return nil
	})
	if err == nil && len(nodes) == 0 {
		err = fmt.Errorf("%s lists no node", name)
	}
	return nodes, err
}

// ReadOpenbPods reads a list of pods in the order of the file, CSV with the
// columns name, cpu_milli, memory_mib, num_gpu, gpu_milli (of each GPU) and,
// where there is one, gpu_spec (models joined by "|"). name is the file's name
// in messages.
func ReadOpenbPods(name string, r io.Reader) ([]OpenbPod, error) {
	table, err := NewTable(name, r, []string{"name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"}, []string{"gpu_spec"})
	if err != nil {
		return nil, err
	}
	var pods []OpenbPod
	specs := map[string][]string{}
	err = eachRow(table, func() error {
		p := OpenbPod{Name: strings.Clone(table.Get(0))}
		var gpus int64
		if err := integers(table, []field{{1, &p.MilliCPU, maxMilliCPU}, {2, &p.MemoryMiB, maxMemoryMiB}, {3, &gpus, maxNodeGPUs}, {4, &p.Milli, 1000}}); err != nil {
			return err
		}
		switch {
		case gpus == 0 && p.Milli != 0:
			return table.Wrong(4, "0 where num_gpu is 0")
		case gpus > 0 && p.Milli == 0:
			return table.Wrong(4, "from 1 to 1000 where num_gpu is not 0")
		case gpus > 1 && p.Milli != 1000:
			return table.Wrong(4, "1000 where num_gpu is more than 1")
		case p.Milli == 1000:
			p.GPUs, p.Milli = int(gpus), 0
		}
		var ok bool
		if p.Models, ok = specs[table.Get(5)]; !ok {
			models, err := parseModels(table)
			if err != nil {
				return err
			}
			p.Models = models
			specs[strings.Clone(table.Get(5))] = models
		}
		pods = append(pods, p)
		return nil
	})
	if err == nil && len(pods) == 0 {
		err = fmt.Errorf("%s lists no pod", name)
	}
	return pods, err
}

// parseModels reads the column gpu_spec: models, each once, by name.
func parseModels(table *Table) ([]string, error) {
	given := table.Get(5)
	if given == "" {
		return nil, nil
	}
	models := strings.Split(strings.Clone(given), "|")
	for i := range models {
		models[i] = strings.TrimSpace(models[i])
		if models[i] == "" {
			return nil, table.Wrong(5, `models joined by "|", or nothing`)
		}
	}
	slices.Sort(models)
	return slices.Compact(models), nil
}

// field is a column that holds an integer from 0 to a limit.
type field struct {
	column int
	value  *int64
	most   int64
}

// integers reads the columns. Integers may be written with a fraction of
// zeros, as some tools do.
func integers(table *Table, fields []field) error {
	for _, f := range fields {
		given := table.Get(f.column)
		if whole, fraction, ok := strings.Cut(given, "."); ok && fraction != "" && strings.Trim(fraction, "0") == "" {
			given = whole
		}
		v, err := strconv.ParseInt(given, 10, 64)
		if err != nil || v < 0 || v > f.most {
			return table.Wrong(f.column, fmt.Sprintf("an integer from 0 to %d", f.most))
		}
		*f.value = v
	}
	return nil
}

// eachRow calls the function for every row.
func eachRow(table *Table, do func() error) error {
	for count := 0; ; count++ {
		err := table.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if count == maxRows {
			return fmt.Errorf("%s, row %d: more than %d rows", table.file, table.Row(), maxRows)
		}
		if err := do(); err != nil {
			return err
		}
	}
}
