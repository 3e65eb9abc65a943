package outbox

import "time"

// Judge is what becomes of an event whose first attempt ended with the error.
func Judge(err error) Outcome {
	policy, _ := complete(Schedule())
	return decide(attempted{policy: policy, number: 1, random: 0.5, hint: hintOf(err, time.Now()), err: err})
}
