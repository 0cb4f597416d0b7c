package queue

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Class is the number of a class of resources in its Classes.
type Class int32

// The classes that always exist. GPU models follow, in the order of their
// names.
const (
	// CPU is counted in thousandths of a core.
	CPU Class = iota
	// Memory is counted in bytes.
	Memory
	// GPU is counted in thousandths of a GPU of any model.
	GPU

	firstModel
)

// The names of the classes that always exist.
const (
	NameCPU    = "cpu"
	NameMemory = "memory"
	NameGPU    = "gpu"
)

// MaxAmount is the largest amount that is counted; a larger one is refused or
// cut down to it.
const MaxAmount = int64(1) << 60

// Vector holds an amount for each class.
type Vector []int64

// Classes numbers the classes. It does not change once made.
type Classes struct {
	names []string
	index map[string]Class
}

// newClasses numbers the fixed classes and these models. Letter case does not
// tell models apart; of two spellings the one that sorts first is shown.
func newClasses(models []string) *Classes {
	c := &Classes{names: []string{NameCPU, NameMemory, NameGPU}, index: map[string]Class{NameCPU: CPU, NameMemory: Memory, NameGPU: GPU}}
	sorted := slices.Clone(models)
	slices.SortFunc(sorted, func(a, b string) int {
		if d := strings.Compare(strings.ToLower(a), strings.ToLower(b)); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	for _, model := range sorted {
		key := strings.ToLower(model)
		if _, known := c.index[key]; known || key == "" {
			continue
		}
		c.index[key] = Class(len(c.names))
		c.names = append(c.names, model)
	}
	return c
}

// Len is the number of classes.
func (c *Classes) Len() int { return len(c.names) }

// Name returns a class's name, as it was first written.
func (c *Classes) Name(class Class) string { return c.names[class] }

// Find returns the class of this name, in any letter case.
func (c *Classes) Find(name string) (Class, bool) {
	class, ok := c.index[name]
	if !ok {
		class, ok = c.index[strings.ToLower(name)]
	}
	return class, ok
}

// Zero returns a vector of zeros.
func (c *Classes) Zero() Vector { return make(Vector, len(c.names)) }

// AddGPUs adds thousandths of GPUs of this model to a vector: overall, and to
// the model's class if it has one. An empty model is any.
func (c *Classes) AddGPUs(v Vector, model string, milli int64) {
	v[GPU] += milli
	if class, ok := c.Find(model); ok && class >= firstModel {
		v[class] += milli
	}
}

// Format returns an amount of a class as people write it: "8", "0.5", "64Gi".
func (c *Classes) Format(class Class, amount int64) string { return format(class, amount) }

func format(class Class, amount int64) string {
	if class == Memory {
		for _, unit := range []struct {
			shift uint
			name  string
		}{{50, "Pi"}, {40, "Ti"}, {30, "Gi"}, {20, "Mi"}, {10, "Ki"}} {
			if size := int64(1) << unit.shift; amount >= size || amount <= -size {
				return strings.TrimSuffix(strconv.FormatFloat(float64(amount)/float64(size), 'f', 1, 64), ".0") + unit.name
			}
		}
		return strconv.FormatInt(amount, 10)
	}
	sign := ""
	if amount < 0 {
		sign, amount = "-", -amount
	}
	if amount%1000 == 0 {
		return sign + strconv.FormatInt(amount/1000, 10)
	}
	return sign + strings.TrimRight(fmt.Sprintf("%d.%03d", amount/1000, amount%1000), "0")
}
