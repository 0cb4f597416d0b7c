package ondemand

// Verb is the word by which a program is this one.
const Verb = "serve-data"

// ProgramFile is the program at a desk.
const ProgramFile = "muster-worker"
