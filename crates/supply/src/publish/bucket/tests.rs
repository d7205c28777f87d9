use super::*;

#[test]
fn parts_are_few_enough_at_any_size() {
    let gib = 1 << 30;
    assert_eq!(part_length(20 * gib), PART);
    assert_eq!(part_length(160 * gib), 17 << 20);
    for size in [PART + 1, 100 * gib, 2040 * gib, 5 << 40] {
        let length = part_length(size);
        assert!(size.div_ceil(length) <= PARTS, "{size}");
        assert_eq!(length % (1 << 20), 0);
    }
}
