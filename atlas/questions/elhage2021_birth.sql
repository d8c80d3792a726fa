-- title:  How induction came about while the model was trained
-- source: Olsson et al. 2022: induction heads and in-context learning arise together in one abrupt change; Elhage et al. 2021, two-layer models
-- grain:  step
-- column: step: steps of training before the check
-- column: first_block: loss of random tokens that nothing tells, nats
-- column: second_block: loss of the same tokens when they come again, nats
-- column: saved: share of the first block's loss that the second does not have, 1 - second_block/first_block: what is learned in context
-- column: induction: mean weight, of the head that has most, on the token after the first copy of the one that it looks from, in [0, 1]
-- column: induction_layer: layer of that head, from 0
-- column: induction_head: that head, from 0
-- column: previous: mean weight, of the head that has most, on the token before, in [0, 1]
-- column: previous_layer: layer of that head, from 0
-- column: previous_head: that head, from 0
-- chart:  line(step, saved)
--
-- Every check has the weights as they were then. Only a model that ships the curve of its training has one.
CREATE OR REPLACE MACRO elhage2021_birth() AS TABLE
SELECT
    c.step,
    c.first_block,
    c.second_block,
    1 - c.second_block / nullif(c.first_block, 0) AS saved,
    c.induction,
    c.induction_layer,
    c.induction_head,
    c.previous,
    c.previous_layer,
    c.previous_head
FROM training_curve AS c
ORDER BY c.step;
