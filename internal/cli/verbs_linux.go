package cli

import (
	"github.com/muster-dev/muster/internal/cli/prune"
	"github.com/muster-dev/muster/internal/cli/serve"
	"github.com/muster-dev/muster/internal/cli/spark"
	"github.com/muster-dev/muster/internal/cli/worker"
)

// verbsOfSystem are those that only run on Linux, by group, behind the others.
var verbsOfSystem = map[string][]Verb{
	"cluster": {serve.New},
	"other":   {prune.New, worker.New, spark.New},
}
