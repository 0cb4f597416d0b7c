package v1alpha1

// InputSource is one source of files. Give one of dataset, stage and cron.
type InputSource struct {
	// Name is how the stage knows this input. Default: the name of the dataset
	// or stage.
	//
	// +kubebuilder:validation:Pattern=`^[A-Za-z][-A-Za-z0-9_]*$`
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Name string `json:"name,omitempty"`

	// Dataset is a dataset of the pipeline's namespace. Each commit on the branch
	// starts a run.
	//
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Dataset string `json:"dataset,omitempty"`

	// Branch is the branch of the dataset. Default: main.
	//
	// +optional
	Branch DatasetRef `json:"branch,omitempty"`

	// Stage is another stage of this pipeline, whose output of the same run is
	// read.
	//
	// +kubebuilder:validation:MaxLength=30
	// +optional
	Stage string `json:"stage,omitempty"`

	// Cron makes a file named after the time, in UTC, at each time that it says,
	// which starts a run.
	//
	// +optional
	Cron *CronInput `json:"cron,omitempty"`

	// Glob cuts the input into datums: each file or folder that it matches is
	// one, / is everything at once, /* each file or folder at the top, /**.png
	// each such file anywhere. Parts in parentheses can be referred to by joinOn
	// and groupBy. Default: /.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Glob string `json:"glob,omitempty"`

	// JoinOn is what a datum of this input has in common with those it is joined
	// with: $1 is the first part in parentheses of its glob.
	//
	// +kubebuilder:validation:MaxLength=256
	// +optional
	JoinOn string `json:"joinOn,omitempty"`

	// OuterJoin keeps datums of this input that find no other.
	//
	// +optional
	OuterJoin bool `json:"outerJoin,omitempty"`

	// GroupBy is what the datums that are given together have in common.
	//
	// +kubebuilder:validation:MaxLength=256
	// +optional
	GroupBy string `json:"groupBy,omitempty"`

	// Silent says that commits on the branch do not start runs; runs that others
	// start read its last commit.
	//
	// +optional
	Silent bool `json:"silent,omitempty"`
}

// CronInput is a source of times.
type CronInput struct {
	// Schedule is when: five fields (minute, hour, day of the month, month, day
	// of the week) or @hourly, @daily, @weekly, @monthly, @every 90m.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Schedule string `json:"schedule"`
	// Overwrite keeps the last time alone, instead of all of them.
	//
	// +optional
	Overwrite bool `json:"overwrite,omitempty"`
}

// Input is what a stage reads: one source, or several combined.
//
// +kubebuilder:validation:XValidation:rule="[has(self.dataset), has(self.stage), has(self.cron), has(self.cross), has(self.join), has(self.group), has(self.union)].filter(x, x).size() == 1",message="input: give one of dataset, stage, cron, cross, join, group and union"
type Input struct {
	InputSource `json:",inline"`

	// Cross is every combination of one datum of each of these.
	//
	// +kubebuilder:validation:MaxItems=8
	// +optional
	Cross []InputPart `json:"cross,omitempty"`
	// Join is every combination whose joinOn is the same.
	//
	// +kubebuilder:validation:MaxItems=8
	// +optional
	Join []InputPart `json:"join,omitempty"`
	// Group is one datum for each groupBy, of all that have it.
	//
	// +kubebuilder:validation:MaxItems=8
	// +optional
	Group []InputPart `json:"group,omitempty"`
	// Union is the datums of all of these, each by itself.
	//
	// +kubebuilder:validation:MaxItems=8
	// +optional
	Union []InputPart `json:"union,omitempty"`
}

// InputPart is what inputs are combined of: a source, or a combination of
// sources.
//
// +kubebuilder:validation:XValidation:rule="[has(self.dataset), has(self.stage), has(self.cron), has(self.cross), has(self.join), has(self.group), has(self.union)].filter(x, x).size() == 1",message="input: give one of dataset, stage, cron, cross, join, group and union"
type InputPart struct {
	InputSource `json:",inline"`

	// Cross is every combination of one datum of each of these.
	//
	// +kubebuilder:validation:MaxItems=8
	// +optional
	Cross []InputLeaf `json:"cross,omitempty"`
	// Join is every combination whose joinOn is the same.
	//
	// +kubebuilder:validation:MaxItems=8
	// +optional
	Join []InputLeaf `json:"join,omitempty"`
	// Group is one datum for each groupBy, of all that have it.
	//
	// +kubebuilder:validation:MaxItems=8
	// +optional
	Group []InputLeaf `json:"group,omitempty"`
	// Union is the datums of all of these, each by itself.
	//
	// +kubebuilder:validation:MaxItems=8
	// +optional
	Union []InputLeaf `json:"union,omitempty"`
}

// InputLeaf is a source within a combination of combinations.
//
// +kubebuilder:validation:XValidation:rule="[has(self.dataset), has(self.stage), has(self.cron)].filter(x, x).size() == 1",message="input: give one of dataset, stage and cron"
type InputLeaf struct {
	InputSource `json:",inline"`
}
