package afterjob

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	"github.com/muster-dev/muster/internal/node/archive"
	"github.com/muster-dev/muster/internal/node/origin"
)

// Options make Jobs. All fields are required.
type Options struct {
	// Client lists and watches the TrainingJobs.
	Client metadata.Interface
	// Archive has the logs of pods that are gone, by job.
	Archive *archive.Archive
	// Dir has a folder for each job, which its members share.
	Dir string
	// AfterPodsOf calls f once no pod of a job is left here.
	AfterPodsOf func(ctx context.Context, job types.UID, f func())
	// RemoveFolder removes the folder of a job.
	RemoveFolder func(ctx context.Context, job types.UID) error
	// Log takes warnings.
	Log *slog.Logger
}

// Jobs watches which TrainingJobs exist, so that their folders and logs can go with them.
type Jobs struct {
	o        Options
	informer cache.SharedIndexInformer
}

// New makes Jobs; call Run.
func New(o Options) *Jobs {
	informer := metadatainformer.NewFilteredMetadataInformer(o.Client, origin.TrainingJobs, metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer()
	return &Jobs{o: o, informer: informer}
}

// UID is the UID of a job as the watch shows it; empty: it shows none.
func (j *Jobs) UID(name types.NamespacedName) types.UID {
	object, ok, err := j.informer.GetStore().GetByKey(name.String())
	if m, isMeta := object.(*metav1.PartialObjectMetadata); err == nil && ok && isMeta {
		return m.UID
	}
	return ""
}

// Run removes what is kept for jobs that are gone: at first all those that
// ended while no muster ran, then each when it is deleted.
func (j *Jobs) Run(ctx context.Context) {
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
func (j *Jobs) kept() []keptJob {
	var list []keptJob
	archived, err := j.o.Archive.Jobs()
	if err != nil {
		j.o.Log.Warn("looking for what is kept of jobs", "error", err)
	}
	for namespace, uids := range archived {
		for _, uid := range uids {
			list = append(list, keptJob{namespace: namespace, uid: types.UID(uid)})
		}
	}
	entries, err := os.ReadDir(j.o.Dir)
	if err != nil {
		return list
	}
	for _, entry := range entries {
		list = append(list, keptJob{uid: types.UID(entry.Name())})
	}
	return list
}

func (j *Jobs) exists(uid types.UID) bool {
	return slices.ContainsFunc(j.informer.GetStore().List(), func(object any) bool {
		m, ok := object.(*metav1.PartialObjectMetadata)
		return ok && m.UID == uid
	})
}

// drop removes what is kept for a job once none of its pods is left here.
func (j *Jobs) drop(ctx context.Context, job keptJob) {
	if job.uid == "" || strings.ContainsAny(string(job.uid), "/.") {
		return
	}
	j.o.AfterPodsOf(ctx, job.uid, func() {
		if err := j.o.RemoveFolder(ctx, job.uid); err != nil {
			j.o.Log.Warn("removing what members of a job shared", "job", string(job.uid), "error", err)
		}
		if job.namespace == "" {
			return
		}
		if err := j.o.Archive.Drop(job.namespace, string(job.uid)); err != nil {
			j.o.Log.Warn("removing the logs of a job", "job", string(job.uid), "error", err)
		}
	})
}
