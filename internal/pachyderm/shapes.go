package pachyderm

// The messages of Pachyderm's pps.proto and pfs.proto, as of its last releases
// (2.11), field by field.

const (
	takeOut    = "take it out"
	noCommits  = "the commits of another system do not exist here: " + takeOut + ", and read a branch"
	noSidecar  = "there is no sidecar here, whose resources could be limited"
	ownPods    = "pods are Muster's: "
	computeAll = "`muster pipeline rerun` computes everything again, when it is wanted"
)

var specificationShape = &shape{
	honours: []string{
		"pipeline", "transform", "parallelism_spec", "egress", "output_branch", "resource_requests", "resource_limits", "input",
		"description", "datum_timeout", "datum_tries", "metadata", "reprocess_spec", "autoscaling",
	},
	refuses: map[string]string{
		"tf_job":          "a TFJob is an object of its own here: apply it as it is (docs/kubeflow.md), or make a Pipeline with a stage that has `training`",
		"s3_out":          "output is what is written to /pfs/out: write it there, and " + takeOut,
		"service":         "Muster has no pipelines that serve: run it as a Deployment, which reads its data through the S3 gateway (docs/data.md, In a pod)",
		"spout":           "Muster has no pipelines without input: run the program as a Deployment or `muster run`, and let it commit through the S3 gateway (docs/data.md, In a pod); pipelines that read the dataset start with each commit",
		"job_timeout":     "only datums have a limit of time here: give datum_timeout, and " + takeOut,
		"scheduling_spec": ownPods + "instead of nodeSelector say which GPUs with `gpuModels` in a Pipeline, instead of priorityClassName which queue with `queue`, and " + takeOut,
		"pod_spec":        ownPods + "say what the stage needs with the other fields, and " + takeOut,
		"pod_patch":       ownPods + "say what the stage needs with the other fields, and " + takeOut,
		"tolerations":     ownPods + "which tolerations they have is not a stage's to say: " + takeOut,
		"determined":      "there is no Determined here: use a stage that has `training`, and " + takeOut,
		"dry_run":         "use `muster pipeline apply --dry-run`, and " + takeOut,
	},
	notes: map[string]string{
		"update":                    "applying changes what is there and makes what is not, whatever this says",
		"reprocess":                 "applying recomputes what is different and nothing else; " + computeAll,
		"sidecar_resource_limits":   noSidecar,
		"sidecar_resource_requests": noSidecar,
		"datum_set_spec":            "workers ask for datums as they finish others, so nothing has to be cut in sets",
		"salt":                      "results are found by their contents, not by a salt; " + computeAll,
		"spec_commit":               "this is Pachyderm's own note of where it keeps the specification",
		"maximum_expected_uptime":   "nobody is told when a run takes longer than this; `muster pipeline runs` shows how long runs take",
	},
	retired: map[string]string{
		"standby":        "is of Pachyderm 1: give autoscaling",
		"chunk_spec":     "is of Pachyderm 1, and was replaced by datum_set_spec, which is not needed here: " + takeOut,
		"hashtree_spec":  "is of Pachyderm 1: " + takeOut,
		"cache_size":     "is of Pachyderm 1: " + takeOut,
		"enable_stats":   "is of Pachyderm 1; what became of datums is always kept here: " + takeOut,
		"max_queue_size": "is of Pachyderm 1: " + takeOut,
		"incremental":    "is of Pachyderm 1; only what changed is computed anyway: " + takeOut,
		"batch":          "is of Pachyderm 1: " + takeOut,
	},
}

var pipelineShape = &shape{honours: []string{"name", "project"}}

var projectShape = &shape{honours: []string{"name"}}

var transformShape = &shape{
	honours: []string{"image", "cmd", "err_cmd", "err_stdin", "env", "secrets", "stdin", "accept_return_code", "working_dir"},
	refuses: map[string]string{
		"image_pull_secrets": "add them to imagePullSecrets of the ServiceAccount `default` of the namespace, and " + takeOut,
		"user":               "programs run as the image says: set USER in the image, and " + takeOut,
		"dockerfile":         "images are not built here: build it, name it as image, and " + takeOut,
		"datum_batching":     "its protocol is that of Pachyderm's client: make a Pipeline with `batch: true`, whose program asks for the next datum with the program in MUSTER_NEXT, and " + takeOut,
	},
	notes: map[string]string{
		"debug":         "what the program and Muster said of each datum is always kept: `muster pipeline logs`",
		"memory_volume": "files of datums are on the node's disk, of which the kernel keeps in memory what there is room for",
	},
	retired: map[string]string{
		"build": "is of Pachyderm 1; images are not built here: build it, name it as image, and " + takeOut,
	},
}

var secretShape = &shape{
	honours: []string{"name", "key", "env_var"},
	refuses: map[string]string{
		"mount_path": "secrets are given as variables alone: give env_var and key instead",
	},
}

var parallelismShape = &shape{
	honours: []string{"constant"},
	retired: map[string]string{
		"coefficient": "is of Pachyderm 1: give constant, and autoscaling to start with one worker",
	},
}

var egressShape = &shape{
	honours: []string{"URL", "object_storage"},
	refuses: map[string]string{
		"sql_database": "output is not written to databases: have a stage of its own do that, with the password as a secret",
	},
}

var objectStorageShape = &shape{honours: []string{"url"}}

var resourcesShape = &shape{honours: []string{"cpu", "memory", "gpu", "disk"}}

var gpuShape = &shape{honours: []string{"type", "number"}}

var metadataShape = &shape{honours: []string{"annotations", "labels"}}

var inputShape = &shape{
	honours: []string{"pfs", "join", "group", "cross", "union", "cron"},
	retired: map[string]string{
		"git":  "repositories of code are not read here: have a CI job commit what it has checked out with `muster data put`, and read that dataset",
		"atom": "was renamed: give pfs",
	},
}

var pfsShape = &shape{
	honours: []string{"project", "name", "repo", "repo_type", "branch", "glob", "join_on", "outer_join", "group_by"},
	refuses: map[string]string{
		"commit":      noCommits,
		"empty_files": "files are given with their contents: " + takeOut + "; files that are equal are stored once, so copying them costs no room",
		"s3":          "files are below /pfs: read them there, and " + takeOut,
		"trigger":     "each commit on the branch starts a run: have whoever commits decide when to move that branch (`muster data branch --move`), and " + takeOut,
	},
	notes: map[string]string{
		"lazy": "files are there before the program starts, and are not pipes",
	},
}

var cronShape = &shape{
	honours: []string{"name", "project", "spec", "overwrite"},
	refuses: map[string]string{
		"commit": noCommits,
	},
	notes: map[string]string{
		"repo":  "its files are the stage's own, not those of a dataset that others could read",
		"start": "times count from when the pipeline is applied; those before that are not made up for",
	},
}
