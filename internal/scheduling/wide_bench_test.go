package scheduling

import (
	"fmt"
	"testing"
)

// wideSnapshot is one node on which each request of one member holds one GPU.
func wideSnapshot(gpus int, pods int64) Snapshot {
	s := Snapshot{Now: 2 * benchSecond, Nodes: []Node{testNode("wide", "A100", gpus)}}
	s.Nodes[0].Allocatable = Resources{MilliCPU: 1 << 40, Memory: 1 << 50, Pods: pods}
	for i := range gpus {
		r := benchRequest(i, 1, 1)
		r.Queue = ""
		p := Placement{Gang: r.Key, UID: r.UID, Attempt: 1, Created: benchSecond, Members: []PlacedMember{{
			Assignment: Assignment{Role: "worker", Node: "wide", GPUs: []string{s.Nodes[0].Devices[i].UUID}}, Resources: r.Roles[0].Resources,
		}}}
		s.Requests, s.Placements = append(s.Requests, r), append(s.Placements, p)
	}
	return s
}

// BenchmarkSyncOfAWideNode has a new core learn, and one that knows it all look again at, a node with many
// GPUs that are all held.
func BenchmarkSyncOfAWideNode(b *testing.B) {
	for _, shape := range []struct {
		gpus int
		pods int64
	}{{64, 1000}, {250, 1000}, {1000, 1000}, {1000, 110}} {
		s, gpus := wideSnapshot(shape.gpus, shape.pods), shape.gpus
		b.Run(fmt.Sprintf("new/%d gpus, %d pods", gpus, shape.pods), func(b *testing.B) {
			for b.Loop() {
				NewCore(Options{}).Sync(s)
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/float64(gpus), "us/gpu")
		})
		c := NewCore(Options{})
		c.Sync(s)
		b.Run(fmt.Sprintf("again/%d gpus, %d pods", gpus, shape.pods), func(b *testing.B) {
			for b.Loop() {
				c.Sync(s)
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/float64(gpus), "us/gpu")
		})
	}
}
