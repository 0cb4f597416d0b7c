// Package trainingjob turns a TrainingJob into a Gang and mirrors the gang's
// life back.
//
// It owns the order of a job's beginning (code and environment first, while no
// GPU is held; then claims, the headless Service and the Gang, all at once),
// the pod template of every member, the deadline, the time to live, suspension
// and the job's status.
//
// Vocabulary:
//
//   - Preparation is making code and environment ready. Its failure fails the
//     job with the fetcher's or the installer's own words.
//   - A job is finished once the gang's outcome is decided; its members may
//     still be ending.
//   - A job has drifted when its spec was changed, after its gang was made, in
//     a way that a running gang cannot follow.
//
// Everything is decided by one pure function, decide, from one reading of the
// job, its gang, its Service, its claims, its preparation and the clock. It
// does not know the scheduler, nodes or how members find one another.
package trainingjob
