package scheduling

import "fmt"

// testNode builds a node with 16 cores, 64 GiB and GPUs of one model.
func testNode(name, model string, gpus int) Node {
	n := Node{
		Name: name, Allocatable: Resources{MilliCPU: 16000, Memory: 64 << 30, Pods: 110},
		Ports: &PortRange{First: 20000, Last: 20099},
	}
	for i := range gpus {
		n.Devices = append(n.Devices, Device{UUID: fmt.Sprintf("%s-%d", name, i), Index: i, Model: model})
	}
	return n
}

// counting makes a node one that counts its devices.
func counting(n *Node) {
	n.Counts = true
	for i := range n.Devices {
		n.Devices[i] = Device{UUID: fmt.Sprint("counted-", i), Index: i, Model: n.Devices[0].Model, MemoryMiB: n.Devices[0].MemoryMiB}
	}
}

// requestBuilder builds requests in few words.
type requestBuilder struct{ r Request }

func gang(name string) *requestBuilder {
	return &requestBuilder{Request{Key: Key{"vision", name}, UID: "uid-" + name}}
}

func (b *requestBuilder) role(name string, replicas, gpus int32, models ...string) *requestBuilder {
	b.r.Roles = append(b.r.Roles, Role{
		Name: name, Replicas: replicas, GPUs: gpus, Models: models,
		Resources: Resources{MilliCPU: 100, Memory: 128 << 20, Pods: 1},
	})
	return b
}

func (b *requestBuilder) with(edit func(*Request)) *requestBuilder {
	edit(&b.r)
	return b
}

func (b *requestBuilder) obj() Request { return b.r }

// journal turns a plan into the placement it becomes.
func journal(s Snapshot, plan Plan) Placement {
	p := Placement{Gang: plan.Key, UID: plan.UID, Attempt: plan.Attempt, Created: s.Now}
	resources := map[string]Resources{}
	for _, r := range s.Requests {
		if r.UID == plan.UID {
			for _, role := range r.Roles {
				resources[role.Name] = role.Resources
			}
		}
	}
	for _, m := range plan.Members {
		p.Members = append(p.Members, PlacedMember{Assignment: m, Resources: resources[m.Role]})
	}
	return p
}
