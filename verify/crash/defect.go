package main

// A defect is a fault that the tests plant in a process, to show that the count finds it.
const (
	released  = "released"  // the service releases the key after the effect
	early     = "early"     // the service responds before the effect
	unfenced  = "unfenced"  // the ledger accepts earlier owners of a key
	freshKeys = "freshkeys" // the client sends a new key with each attempt
	forgetful = "forgetful" // the client forgets its operations when it is killed
	noInbox   = "noinbox"   // the consumer handles each delivery
)
