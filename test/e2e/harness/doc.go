// Package harness starts Muster the way a person does, `muster up`, in a data
// folder of its own, and looks at it from outside: through the CLI, through
// kubectl, and by reading /proc. What it says about processes never comes from
// Muster's own counters.
package harness
