//! Leases: takeover by observed stillness, fences, slots and limits.

use std::time::{Duration, Instant};

use model::{Slot, TaskState, WallTime};
use store::{Acquired, Effects, Finish, HeldLease, IncarnationId, LeaseObserver, LimitGrant, SlotGrant, Store, Wait};
use uuid::Uuid;

use crate::stand::{TTL, code, stands};

fn slots(count: u32) -> Vec<Slot> {
    (0..count).map(|number| Slot::new(code("ts"), number)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn only_an_owner_that_stands_still_for_its_whole_time_is_taken_over() {
    for stand in stands("only_an_owner_that_stands_still_for_its_whole_time_is_taken_over").await {
        let store = &stand.store;
        let (owner, other) = (IncarnationId::random(), IncarnationId::random());
        let Acquired::Yes(duty) = store.acquire("duty:reconciler", owner, TTL, "test").await.unwrap() else {
            panic!("nobody holds it")
        };
        assert!(matches!(store.acquire("duty:reconciler", other, TTL, "test").await.unwrap(), Acquired::No(_)));
        let look = async || store.leases("duty:").await.unwrap();
        let mut observer = LeaseObserver::new();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(observer.look(&look().await, at(0)), []);
        assert_eq!(observer.look(&look().await, at(29)), []);
        // It lives, just before its time is over.
        store.renew(&duty).await.unwrap();
        assert_eq!(observer.look(&look().await, at(31)), []);
        assert_eq!(observer.look(&look().await, at(60)), [], "29 s after the beat was seen");
        let before = look().await;
        let stale = observer.look(&before, at(61));
        assert_eq!(stale, before, "{}", stand.database.kind);
        // It lives after all: what was seen is not what is there.
        store.renew(&duty).await.unwrap();
        assert!(!store.take_over(&stale[0]).await.unwrap());
        store.check_lease(&duty).await.unwrap();
        assert!(store.take_over(&look().await[0]).await.unwrap());
        for refused in [store.renew(&duty).await, store.release(&duty).await, store.check_lease(&duty).await] {
            assert_eq!(refused.unwrap_err().code, "fence.stale");
        }
        let Acquired::Yes(taken) = store.acquire("duty:reconciler", other, TTL, "test").await.unwrap() else {
            panic!("it is free")
        };
        assert!(taken.fence > duty.fence);
        store.release(&taken).await.unwrap();
        assert_eq!(look().await, []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_of_a_dead_worker_is_taken_over_with_what_its_run_holds() {
    for stand in stands("a_task_of_a_dead_worker_is_taken_over_with_what_its_run_holds").await {
        let store = &stand.store;
        let (dead, heir) = (IncarnationId::random(), IncarnationId::random());
        let lost = stand.claimed(dead).await;
        let SlotGrant::Got { lease: slot, .. } = store.acquire_slot(&lost.claim, &slots(1)).await.unwrap() else {
            panic!("the slot is free")
        };
        let LimitGrant::Got(token) = store.acquire_limit(&lost.claim, "restart", 1).await.unwrap() else {
            panic!("the limit is free")
        };
        // Others' leases are observed; what a run holds is not for the taking.
        let mut observer = LeaseObserver::new();
        assert_eq!(observer.take_over(store, heir).await.unwrap(), []);
        let seen: Vec<HeldLease> = store.leases("task:").await.unwrap();
        assert!(store.take_over(&seen[0]).await.unwrap());
        assert_eq!(store.task(lost.task.id).await.unwrap().state, TaskState::Rescheduled);
        assert_eq!(store.leases("slot:").await.unwrap().len(), 1, "the run keeps its slot");
        let heirs = stand.claim(heir).await;
        for old in [&slot, &token] {
            assert_eq!(store.check_lease(old).await.unwrap_err().code, "fence.stale", "{}", old.resource);
        }
        let SlotGrant::Got { lease, .. } = store.acquire_slot(&heirs.claim, &slots(1)).await.unwrap() else {
            panic!("the run has the slot")
        };
        assert!(lease.fence > slot.fence && lease.owner == heir);
        let LimitGrant::Got(again) = store.acquire_limit(&heirs.claim, "restart", 1).await.unwrap() else {
            panic!("the task has the token")
        };
        assert_eq!(again.resource, token.resource);
        assert_eq!(store.heartbeat(heir).await.unwrap().len(), 3);
        assert_eq!(store.heartbeat(dead).await.unwrap(), []);
        store
            .complete_task(&heirs.claim, Effects { finish: Some(Finish::completed()), ..Effects::default() })
            .await
            .unwrap();
        assert_eq!(store.leases("").await.unwrap(), [], "a run that ended holds nothing");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_locked_the_data_folder_takes_over_its_predecessors_at_once_and_nobody_else() {
    let test = "whoever_locked_the_data_folder_takes_over_its_predecessors_at_once_and_nobody_else";
    for stand in stands(test).await {
        let store = &stand.store;
        let (folder, elsewhere) = (Uuid::new_v4(), Uuid::new_v4());
        let before = stand.enter(folder).await;
        let stranger = stand.enter(elsewhere).await;
        stand.submit(2).await;
        let mine = stand.claim(before).await;
        let theirs = stand.claim(stranger).await;
        let now = stand.enter(folder).await;
        let taken = store.claim_predecessors(now).await.unwrap();
        assert_eq!(taken.iter().map(|lease| lease.task).collect::<Vec<_>>(), [Some(mine.task.id)]);
        assert_eq!(store.check_claim(&mine.claim).await.unwrap_err().code, "fence.stale");
        store.check_claim(&theirs.claim).await.unwrap();
        assert_eq!(stand.claim(now).await.task.id, mine.task.id);
        assert_eq!(store.claim_predecessors(now).await.unwrap(), [], "there is nothing left to take");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_limit_is_kept_by_number_under_contention() {
    for stand in stands("a_limit_is_kept_by_number_under_contention").await {
        const CAPACITY: u32 = 3;
        let store = &stand.store;
        stand.submit(8).await;
        let mut claims = Vec::new();
        for _ in 0..8 {
            claims.push(stand.claim(IncarnationId::random()).await.claim);
        }
        for _ in 0..3 {
            let mut asking = Vec::new();
            for claim in claims.clone() {
                let store = Store::connect(&stand.database.url).await.unwrap();
                asking.push(tokio::spawn(async move { store.acquire_limit(&claim, "build", CAPACITY).await.unwrap() }));
            }
            let mut got = 0;
            for asked in asking {
                match asked.await.unwrap() {
                    LimitGrant::Got(_) => got += 1,
                    LimitGrant::Full(holders) => assert_eq!(holders.len(), CAPACITY as usize),
                }
            }
            assert_eq!(got, CAPACITY, "{}", stand.database.kind);
            assert_eq!(store.leases("limit:build:").await.unwrap().len(), CAPACITY as usize);
            // Another limit whose name looks alike is not touched.
            assert!(matches!(store.acquire_limit(&claims[0], "bui_d", 1).await.unwrap(), LimitGrant::Got(_)));
            for claim in &claims {
                store.release_limit(claim, "build").await.unwrap();
                store.release_limit(claim, "bui_d").await.unwrap();
            }
        }
        // A limit that was lowered is full until enough came back.
        for claim in &claims[..3] {
            assert!(matches!(store.acquire_limit(claim, "build", 3).await.unwrap(), LimitGrant::Got(_)));
        }
        store.release_limit(&claims[0], "build").await.unwrap();
        let LimitGrant::Full(holders) = store.acquire_limit(&claims[4], "build", 2).await.unwrap() else {
            panic!("two are held and two are allowed")
        };
        assert_eq!(holders.len(), 2);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_slot_belongs_to_one_run_until_it_ends() {
    for stand in stands("a_slot_belongs_to_one_run_until_it_ends").await {
        let store = &stand.store;
        stand.submit(3).await;
        let mut claims = Vec::new();
        for _ in 0..3 {
            claims.push(stand.claim(IncarnationId::random()).await.claim);
        }
        let mut asking = Vec::new();
        for claim in claims.clone() {
            let store = Store::connect(&stand.database.url).await.unwrap();
            asking.push(tokio::spawn(async move { (claim, store.acquire_slot(&claim, &slots(2)).await.unwrap()) }));
        }
        let (mut got, mut busy) = (Vec::new(), Vec::new());
        for asked in asking {
            match asked.await.unwrap() {
                (claim, SlotGrant::Got { slot, .. }) => got.push((claim, slot.namespace())),
                (claim, SlotGrant::Busy(holders)) => busy.push((claim, holders)),
            }
        }
        let mut names: Vec<&str> = got.iter().map(|(_, name)| name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, ["ts0", "ts1"], "{}", stand.database.kind);
        let (waiting, holders) = &busy[0];
        assert_eq!(holders.len(), 2);
        let (holder, namespace) = &got[0];
        assert_eq!(store.run(holder.run).await.unwrap().namespace.as_ref(), Some(namespace));
        let finish = Effects { finish: Some(Finish::completed()), ..Effects::default() };
        store.complete_task(holder, finish).await.unwrap();
        let SlotGrant::Got { slot, .. } = store.acquire_slot(waiting, &slots(2)).await.unwrap() else {
            panic!("a run gave its slot back")
        };
        assert_eq!(&slot.namespace(), namespace);
        // Of those that wait for a slot, the one that waits longest is due as soon as one goes back, and only that one.
        let (hour, mut sleepers) = (Duration::from_secs(3600), Vec::new());
        for _ in 0..2 {
            let sleeper = stand.claimed(IncarnationId::random()).await;
            let wait = Wait::new("slot.none_free", "both are held").any_of(["slot:ts0".into(), "slot:ts1".into()]);
            store.reschedule_task(&sleeper.claim, wait, WallTime::now().plus(hour), Effects::default()).await.unwrap();
            sleepers.push(sleeper.task.id);
        }
        let elsewhere = stand.claimed(IncarnationId::random()).await;
        let wait = Wait::new("slot.none_free", "it is held").any_of(["slot:ts10".into()]);
        store.reschedule_task(&elsewhere.claim, wait, WallTime::now().plus(hour), Effects::default()).await.unwrap();
        assert!(store.claim_task(IncarnationId::random(), TTL).await.unwrap().is_none());
        assert!(store.force_release("slot:ts1").await.unwrap().is_some());
        let woken = stand.claim(IncarnationId::random()).await;
        assert_eq!(woken.task.id, sleepers[0], "{}", stand.database.kind);
        assert!(store.claim_task(IncarnationId::random(), TTL).await.unwrap().is_none());
        assert!(store.force_release("slot:ts0").await.unwrap().is_some());
        assert!(store.force_release("slot:ts0").await.unwrap().is_none());
        assert_eq!(stand.claim(IncarnationId::random()).await.task.id, sleepers[1]);
        // What went back between the look and the wait is looked for again soon, not after the wait.
        let wait = Wait::new("slot.none_free", "it was held").any_of(["slot:ts0".into()]);
        store.reschedule_task(&woken.claim, wait, WallTime::now().plus(hour), Effects::default()).await.unwrap();
        let deadline = std::time::Instant::now() + Duration::from_secs(20);
        let again = loop {
            if let Some(claimed) = store.claim_task(IncarnationId::random(), TTL).await.unwrap() {
                break claimed;
            }
            assert!(std::time::Instant::now() < deadline, "{}", stand.database.kind);
            tokio::task::yield_now().await;
        };
        assert_eq!(again.task.id, woken.task.id);
    }
}
