package connection

// startOne is the advice where no Muster is running.
const startOne = "start one with `muster up`"
