package footprint

import (
	"cmp"
	"maps"
	"slices"
)

// fileBytes is the least that a file counts: inodes are used up by empty files, too.
const fileBytes = 4096

// Usage is what the files of a user need.
type Usage struct {
	// Bytes are those of all files; a file has 4 KiB at least.
	Bytes int64
	// Pods are the bytes of each pod among them, by UID.
	Pods map[string]int64
	// Partial is true if there are more files, or deeper folders, than are counted.
	Partial bool
}

// Tree is what the files of one folder need.
type Tree struct {
	Bytes, Files int64
	Partial      bool
}

// add counts a tree; pod is empty for one of no pod.
func (u *Usage) add(t Tree, pod string) {
	bytes := max(t.Bytes, t.Files*fileBytes)
	u.Bytes += bytes
	u.Partial = u.Partial || t.Partial
	if pod != "" {
		if u.Pods == nil {
			u.Pods = map[string]int64{}
		}
		u.Pods[pod] += bytes
	}
}

// over reports whether a usage is more than a quota; 0: there is none.
func (u Usage) over(quota int64) bool { return u.Partial || quota > 0 && u.Bytes > quota }

// active is a usage without the pods that do not run: they write nothing any more.
func (u Usage) active(running []string) Usage {
	out := Usage{Bytes: u.Bytes, Partial: u.Partial, Pods: map[string]int64{}}
	for pod, bytes := range u.Pods {
		if slices.Contains(running, pod) {
			out.Pods[pod] = bytes
		} else {
			out.Bytes -= bytes
		}
	}
	return out
}

// largest is the pod with the most bytes; empty: none has any.
func (u Usage) largest() string {
	var largest string
	for _, pod := range slices.Sorted(maps.Keys(u.Pods)) {
		if u.Pods[pod] > 0 && (largest == "" || u.Pods[pod] > u.Pods[largest]) {
			largest = pod
		}
	}
	return largest
}

// eviction is a pod to stop. Short is true if the disk is short of space, and false if its user has
// more than the quota.
type eviction struct {
	uid   uint32
	pod   string
	short bool
}

// decide returns the pods to stop, at most one of each user. Usages are those of active pods alone. Short
// is 0, or on a short disk the least bytes of a pod whose end helps.
func decide(users map[uint32]Usage, quota, short int64) []eviction {
	var out []eviction
	for _, uid := range slices.Sorted(maps.Keys(users)) {
		if u := users[uid]; u.over(quota) && u.largest() != "" {
			out = append(out, eviction{uid: uid, pod: u.largest()})
		}
	}
	if short == 0 || len(out) > 0 {
		return out
	}
	most := slices.SortedFunc(maps.Keys(users), func(a, b uint32) int {
		return cmp.Or(cmp.Compare(users[b].Bytes, users[a].Bytes), cmp.Compare(a, b))
	})
	for _, uid := range most {
		if pod := users[uid].largest(); pod != "" && users[uid].Pods[pod] >= short {
			return []eviction{{uid: uid, pod: pod, short: true}}
		}
	}
	return nil
}
