package pipeline

// ResultsDataset is the dataset, in each namespace, of the results of all its
// pipelines.
const ResultsDataset = "muster-results"

// ResultsBranch is its branch.
const ResultsBranch = "main"

// StatesPrefix begins the names of the datasets that [StatesDataset] names.
const StatesPrefix = "muster-state-"

// StatesDataset is the dataset, in each namespace, that a pipeline's next runs are
// planned from.
func StatesDataset(name string) string { return StatesPrefix + name }

// DatumsPath is the folder, in the dataset of results, of the datums that a stage
// of a run computed.
func DatumsPath(run, stage string) string { return RunsFolder + run + "/" + stage }

// DatumPath is where it is noted, by a link to the result's folder, which result a
// datum has that a run computed.
func DatumPath(run, stage, datum string) string { return DatumsPath(run, stage) + "/" + datum + "~" }
