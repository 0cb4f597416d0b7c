package node

import (
	"context"
	"os"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	"github.com/muster-dev/muster/internal/node/origin"
)

// jobs watches which TrainingJobs exist, so that what is kept for them can go
// with them.
type jobs struct {
	node     *Node
	informer cache.SharedIndexInformer
}

func newJobs(n *Node, client metadata.Interface) *jobs {
	informer := metadatainformer.NewFilteredMetadataInformer(client, origin.TrainingJobs, metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer()
	return &jobs{node: n, informer: informer}
}

// uid is the UID of a job as the watch shows it; empty: it shows none.
func (j *jobs) uid(name types.NamespacedName) types.UID {
	object, ok, err := j.informer.GetStore().GetByKey(name.String())
	if m, isMeta := object.(*metav1.PartialObjectMetadata); err == nil && ok && isMeta {
		return m.UID
	}
	return ""
}

// run removes what is kept for jobs that are gone: at first all those that
// ended while no muster ran, then each when it is deleted.
func (j *jobs) run(ctx context.Context) {
	// Listed before the jobs are: a job made since then is no orphan.
	before := j.kept()
	gone := make(chan *metav1.PartialObjectMetadata)
	_, err := j.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: func(object any) {
		if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = tombstone.Obj
		}
		if m, ok := object.(*metav1.PartialObjectMetadata); ok {
			select {
			case gone <- m:
			case <-ctx.Done():
			}
		}
	}})
	if err != nil {
		return
	}
	stopped := make(chan struct{})
	go func() { defer close(stopped); j.informer.RunWithContext(ctx) }()
	defer func() { <-stopped }()
	if !cache.WaitForCacheSync(ctx.Done(), j.informer.HasSynced) {
		return
	}
	for _, job := range before {
		if !j.exists(job.uid) {
			j.drop(ctx, job)
		}
	}
	for {
		select {
		case <-ctx.Done():
			return
		case m := <-gone:
			j.drop(ctx, keptJob{namespace: m.Namespace, uid: m.UID})
		}
	}
}

// keptJob is a job that something is kept for. The namespace is empty where
// only its shared folder is known.
type keptJob struct {
	namespace string
	uid       types.UID
}

// kept lists the jobs that something is kept for.
func (j *jobs) kept() []keptJob {
	var list []keptJob
	archived, err := j.node.archive.Jobs()
	if err != nil {
		j.node.config.Log.Warn("looking for what is kept of jobs", "error", err)
	}
	for namespace, uids := range archived {
		for _, uid := range uids {
			list = append(list, keptJob{namespace: namespace, uid: types.UID(uid)})
		}
	}
	entries, err := os.ReadDir(j.node.config.jobsDir())
	if err != nil {
		return list
	}
	for _, entry := range entries {
		list = append(list, keptJob{uid: types.UID(entry.Name())})
	}
	return list
}

func (j *jobs) exists(uid types.UID) bool {
	return slices.ContainsFunc(j.informer.GetStore().List(), func(object any) bool {
		m, ok := object.(*metav1.PartialObjectMetadata)
		return ok && m.UID == uid
	})
}

// drop removes what is kept for a job once none of its pods is left here.
func (j *jobs) drop(ctx context.Context, job keptJob) {
	if job.uid == "" || strings.ContainsAny(string(job.uid), "/.") {
		return
	}
	j.node.afterPodsOf(ctx, job.uid, func() {
		if err := j.node.removeJobFolder(ctx, job.uid); err != nil {
			j.node.config.Log.Warn("removing what members of a job shared", "job", string(job.uid), "error", err)
		}
		if job.namespace == "" {
			return
		}
		if err := j.node.archive.Drop(job.namespace, string(job.uid)); err != nil {
			j.node.config.Log.Warn("removing the logs of a job", "job", string(job.uid), "error", err)
		}
	})
}
